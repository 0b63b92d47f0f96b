import { connect, type Socket } from 'node:net'
import { childProcessMain } from '../child-process-main.ts'
import { accountNumberOf, sessionIdOf } from '../seed.ts'
import { type Caller, type LoadCommand, type LoadResult, runCallers } from './run-callers.ts'

/** What is posted over keep-alive connections, one request at a time on each. */
export interface HttpLoadOptions {
  /** `http://127.0.0.1:…` and the path. */
  readonly url: string
  /** The bearer token; undefined: none. */
  readonly key: string | undefined
  readonly connections: number
  readonly body:
    | { readonly kind: 'look-up'; readonly transactions: number }
    | { readonly kind: 'creation' }
}

const RESPONSE_BYTES_MAX = 64 * 1024

// Bare sockets: node:http as a client uses more CPU time than the servers it measures.
childProcessMain<HttpLoadOptions, undefined, LoadCommand, LoadResult>(async (options) => {
  const callers = await Promise.all(
    Array.from({ length: options.connections }, (_, caller) => openCaller(options, caller)),
  )
  return { ready: undefined, run: ({ seconds }) => runCallers(callers, seconds) }
})

async function openCaller(options: HttpLoadOptions, caller: number): Promise<Caller> {
  const { hostname, port } = new URL(options.url)
  const socket = connect({ host: hostname, port: Number(port), noDelay: true })
  await new Promise((resolve, reject) => {
    socket.once('connect', resolve)
    socket.once('error', reject)
  })
  const body = options.body.kind === 'creation' ? creations(caller) : lookups(options.body)
  const head = headOf(options, Buffer.byteLength(body()))
  const listen = responses(socket)
  return (done) => {
    listen(done)
    socket.write(head + body(), 'latin1')
  }
}

function lookups({ transactions }: { readonly transactions: number }): () => string {
  return () => `{"session_id":"${sessionIdOf(1 + Math.floor(Math.random() * transactions))}"}`
}

/** References are unique by process, caller and request. */
function creations(caller: number): () => string {
  const prefix = `b${process.pid}-${caller}`.padEnd(14, '-')
  let count = 0
  return () => {
    count += 1
    const number = accountNumberOf(count)
    return `{"reference":"${prefix}${number}","email":"ada.obi${number}@example.com","phone":"080${number.slice(2).replace(/^0/, '9')}","firstName":"Ada","lastName":"Obi","bank":"9PSB"}`
  }
}

function headOf({ url, key }: HttpLoadOptions, contentLength: number): string {
  const { host, pathname } = new URL(url)
  const lines = [
    `POST ${pathname} HTTP/1.1`,
    `Host: ${host}`,
    'Content-Type: application/json',
    `Content-Length: ${contentLength}`,
    ...(key === undefined ? [] : [`Authorization: Bearer ${key}`]),
  ]
  return `${lines.join('\r\n')}\r\n\r\n`
}

/** Calls `done` with each complete response of a connection. */
function responses(socket: Socket): (done: (failure: string | undefined) => void) => void {
  let waiting: ((failure: string | undefined) => void) | undefined
  let rest: Buffer | undefined
  const report = (failure: string | undefined) => {
    const done = waiting
    waiting = undefined
    done?.(failure)
  }
  socket.on('data', (chunk: Buffer) => {
    const bytes = rest === undefined ? chunk : Buffer.concat([rest, chunk])
    const response = readResponse(bytes)
    rest = response === undefined ? bytes : undefined
    if (response !== undefined) report(response.failure)
    else if (bytes.length > RESPONSE_BYTES_MAX) report('a response without an end')
  })
  socket.on('error', (error) => report(error.message))
  socket.on('close', () => report('the connection was closed'))
  return (done) => {
    if (socket.destroyed) done('the connection is closed')
    else waiting = done
  }
}

/** @returns undefined if the response is not complete yet */
function readResponse(bytes: Buffer): { readonly failure: string | undefined } | undefined {
  const end = bytes.indexOf('\r\n\r\n')
  if (end === -1) return undefined
  const head = bytes.toString('latin1', 0, end)
  const length = /content-length: (\d+)/i.exec(head)?.[1]
  if (length === undefined) return { failure: `no Content-Length: ${head}` }
  if (bytes.length < end + 4 + Number(length)) return undefined
  if (head.startsWith('HTTP/1.1 200 ')) return { failure: undefined }
  return { failure: bytes.toString() }
}
