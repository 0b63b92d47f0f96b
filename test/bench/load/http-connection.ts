import { connect, type Socket } from 'node:net'

/** A keep-alive connection that posts to one path, one request at a time. */
export interface HttpConnection {
  /**
   * @param body of characters of one byte each
   * @param done called with the body of a response with status 200, or with the failure
   */
  post(body: string, done: (failure: string | undefined, body: string) => void): void
}

interface HttpConnectionOptions {
  /** `http://127.0.0.1:…` and the path. */
  readonly url: string
  /** The Authorization header; undefined: none. */
  readonly authorization: string | undefined
}

type Done = Parameters<HttpConnection['post']>[1]

const RESPONSE_BYTES_MAX = 64 * 1024

/** A bare socket: node:http as a client uses more CPU time than the servers it measures. */
export async function openHttpConnection(options: HttpConnectionOptions): Promise<HttpConnection> {
  const { hostname, port } = new URL(options.url)
  const socket = connect({ host: hostname, port: Number(port), noDelay: true })
  await new Promise((resolve, reject) => {
    socket.once('connect', resolve)
    socket.once('error', reject)
  })
  const head = headOf(options)
  const listen = responses(socket)
  return {
    post(body, done) {
      listen(done)
      socket.write(`${head}Content-Length: ${body.length}\r\n\r\n${body}`, 'latin1')
    },
  }
}

function headOf({ url, authorization }: HttpConnectionOptions): string {
  const { host, pathname } = new URL(url)
  const lines = [
    `POST ${pathname} HTTP/1.1`,
    `Host: ${host}`,
    'Content-Type: application/json',
    ...(authorization === undefined ? [] : [`Authorization: ${authorization}`]),
  ]
  return `${lines.join('\r\n')}\r\n`
}

/** Calls `done` with each complete response of a connection. */
function responses(socket: Socket): (done: Done) => void {
  let waiting: Done | undefined
  let rest: Buffer | undefined
  const report: Done = (failure, body) => {
    const done = waiting
    waiting = undefined
    done?.(failure, body)
  }
  socket.on('data', (chunk: Buffer) => {
    const bytes = rest === undefined ? chunk : Buffer.concat([rest, chunk])
    const response = readResponse(bytes)
    rest = response === undefined ? bytes : undefined
    if (response !== undefined) report(response.failure, response.body)
    else if (bytes.length > RESPONSE_BYTES_MAX) report('a response without an end', '')
  })
  socket.on('error', (error) => report(error.message, ''))
  socket.on('close', () => report('the connection was closed', ''))
  return (done) => {
    if (socket.destroyed) done('the connection is closed', '')
    else waiting = done
  }
}

interface HttpResponse {
  readonly failure: string | undefined
  readonly body: string
}

/** @returns undefined if the response is not complete yet */
function readResponse(bytes: Buffer): HttpResponse | undefined {
  const end = bytes.indexOf('\r\n\r\n')
  if (end === -1) return undefined
  const head = bytes.toString('latin1', 0, end)
  const length = /content-length: (\d+)/i.exec(head)?.[1]
  if (length === undefined) return { failure: `no Content-Length: ${head}`, body: '' }
  const start = end + 4
  if (bytes.length < start + Number(length)) return undefined
  const failure = head.startsWith('HTTP/1.1 200 ') ? undefined : bytes.toString()
  return { failure, body: bytes.toString('utf8', start) }
}
