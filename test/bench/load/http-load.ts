import { connect, type Socket } from 'node:net'
import { asProgram } from '../as-program.ts'
import { accountNumberOf, sessionIdOf } from '../seed.ts'
import { type Lane, type LoadAnswer, type LoadCommand, runLanes } from './lanes.ts'

/** What is posted over keep-alive connections, one request at a time on each. */
export interface HttpLoadOptions {
  /** `http://127.0.0.1:…` and the path. */
  readonly url: string
  /** Sent as the bearer's; undefined: none. */
  readonly key: string | undefined
  readonly connections: number
  readonly body:
    | { readonly kind: 'look-up'; readonly transactions: number }
    | { readonly kind: 'creation' }
}

const ANSWER_BYTES_MAX = 64 * 1024

// Bare sockets: node:http as a client takes more of the machine than the servers it measures.
asProgram<HttpLoadOptions, undefined, LoadCommand, LoadAnswer>(async (options) => {
  const lanes = await Promise.all(
    Array.from({ length: options.connections }, (_, lane) => openLane(options, lane)),
  )
  return { ready: undefined, run: ({ seconds }) => runLanes(lanes, seconds) }
})

async function openLane(options: HttpLoadOptions, lane: number): Promise<Lane> {
  const { hostname, port } = new URL(options.url)
  const socket = connect({ host: hostname, port: Number(port), noDelay: true })
  await new Promise((resolve, reject) => {
    socket.once('connect', resolve)
    socket.once('error', reject)
  })
  const body = options.body.kind === 'creation' ? creations(lane) : lookups(options.body)
  const head = headOf(options, Buffer.byteLength(body()))
  const listen = answers(socket)
  return (done) => {
    listen(done)
    socket.write(head + body(), 'latin1')
  }
}

function lookups({ transactions }: { readonly transactions: number }): () => string {
  return () => `{"session_id":"${sessionIdOf(1 + Math.floor(Math.random() * transactions))}"}`
}

/** References never repeat: they tell the process, the lane and the request apart. */
function creations(lane: number): () => string {
  const prefix = `b${process.pid}-${lane}`.padEnd(14, '-')
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

/** Tells of each answer of a connection, once it is there as a whole. */
function answers(socket: Socket): (done: (failure: string | undefined) => void) => void {
  let waiting: ((failure: string | undefined) => void) | undefined
  let rest: Buffer | undefined
  const tell = (failure: string | undefined) => {
    const done = waiting
    waiting = undefined
    done?.(failure)
  }
  socket.on('data', (chunk: Buffer) => {
    const bytes = rest === undefined ? chunk : Buffer.concat([rest, chunk])
    const answer = readAnswer(bytes)
    rest = answer === undefined ? bytes : undefined
    if (answer !== undefined) tell(answer.failure)
    else if (bytes.length > ANSWER_BYTES_MAX) tell('an answer without an end')
  })
  socket.on('error', (error) => tell(error.message))
  socket.on('close', () => tell('the connection was closed'))
  return (done) => {
    if (socket.destroyed) done('the connection is closed')
    else waiting = done
  }
}

/** @returns undefined when the answer goes on in the next packet */
function readAnswer(bytes: Buffer): { readonly failure: string | undefined } | undefined {
  const end = bytes.indexOf('\r\n\r\n')
  if (end === -1) return undefined
  const head = bytes.toString('latin1', 0, end)
  const length = /content-length: (\d+)/i.exec(head)?.[1]
  if (length === undefined) return { failure: `no Content-Length: ${head}` }
  if (bytes.length < end + 4 + Number(length)) return undefined
  if (head.startsWith('HTTP/1.1 200 ')) return { failure: undefined }
  return { failure: bytes.toString() }
}
