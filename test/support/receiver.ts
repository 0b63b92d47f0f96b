import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { listen } from './listen.ts'
import { WAIT_LIMIT_MS } from './wait-for.ts'

/** One request to the receiver. */
export interface ReceivedRequest {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly rawBody: string
  /** Milliseconds since the Unix epoch. */
  readonly at: number
}

/** The response. `hang` never responds; `close` cuts the connection. */
export type Answer =
  | {
      readonly status: number
      readonly headers?: Record<string, string>
      readonly body?: string
      readonly delayMs?: number
      /** Nothing is sent before this promise resolves. */
      readonly after?: Promise<unknown>
    }
  | 'hang'
  | 'close'

/** An HTTP receiver of webhooks on a free loopback port. */
export interface Receiver {
  readonly url: string
  /** Everything received so far. */
  readonly requests: readonly ReceivedRequest[]
  /** Sets the response to later requests. */
  answer(how: Answer | ((request: ReceivedRequest) => Answer | Promise<Answer>)): void
  /** The next request that no `next` has returned yet. Rejects after the time limit. */
  next(limitMs?: number): Promise<ReceivedRequest>
  /** Resolves when the predicate holds for all requests so far. Rejects after the time limit. */
  waitFor(
    predicate: (requests: readonly ReceivedRequest[]) => boolean,
    limitMs?: number,
  ): Promise<readonly ReceivedRequest[]>
  close(): Promise<void>
}

/** @param certificate absent: without TLS */
export async function startReceiver(certificate?: {
  readonly cert: string
  readonly key: string
}): Promise<Receiver> {
  const requests: ReceivedRequest[] = []
  const waiting = new Set<() => void>()
  let taken = 0
  let how: Answer | ((request: ReceivedRequest) => Answer | Promise<Answer>) = { status: 200 }

  const onRequest = (incoming: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = []
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
    incoming.on('end', () => {
      const request = {
        path: incoming.url ?? '',
        headers: incoming.headers,
        rawBody: Buffer.concat(chunks).toString('utf8'),
        at: Date.now(),
      }
      requests.push(request)
      const answer = typeof how === 'function' ? how(request) : how
      if (answer instanceof Promise) void answer.then((later) => respond(response, later))
      else respond(response, answer)
      for (const look of [...waiting]) look()
    })
  }
  const server = certificate ? createSecureServer(certificate, onRequest) : createServer(onRequest)
  const port = await listen(server)

  const until = <T>(attempt: () => T | undefined, limitMs: number): Promise<T> =>
    new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        waiting.delete(look)
        reject(new Error(`not within ${limitMs} ms; ${requests.length} requests arrived`))
      }, limitMs)
      const look = () => {
        const found = attempt()
        if (found === undefined) return
        clearTimeout(timer)
        waiting.delete(look)
        resolve(found)
      }
      waiting.add(look)
      look()
    })
  return {
    url: `${certificate ? 'https' : 'http'}://127.0.0.1:${port}`,
    requests,
    answer: (next) => {
      how = next
    },
    next: (limitMs = WAIT_LIMIT_MS) =>
      until(() => {
        const request = requests[taken]
        if (request) taken += 1
        return request
      }, limitMs),
    waitFor: (predicate, limitMs = WAIT_LIMIT_MS) =>
      until(() => (predicate(requests) ? requests : undefined), limitMs),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

function respond(response: ServerResponse, answer: Answer): void {
  if (answer === 'hang') return
  if (answer === 'close') {
    response.destroy()
    return
  }
  const send = () => response.writeHead(answer.status, answer.headers).end(answer.body)
  if (answer.after) void answer.after.then(send)
  else if (answer.delayMs) setTimeout(send, answer.delayMs)
  else send()
}
