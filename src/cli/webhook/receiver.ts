import { createServer, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Timestamp, timestampNow } from '@bufbuild/protobuf/wkt'
import { verifyWebhook, type WebhookVerification } from '../../client/verify-webhook.ts'

/** One received webhook. */
export interface Received {
  readonly receivedAt: Timestamp
  readonly id: string
  readonly body: string
  readonly verification: WebhookVerification
  readonly forwarded: Forwarded | undefined
}

/** The outcome of forwarding it. */
export interface Forwarded {
  /** 0 without a response. */
  readonly status: number
  readonly latencyMs: number
  readonly error: string
}

interface ReceiverOptions {
  /** The signing secret; requests wait for it. */
  readonly secret: Promise<string>
  readonly forwardTo: string | undefined
  readonly onReceived: (received: Received) => void
}

/** Far larger than any event. */
const BODY_MAX_BYTES = 1_048_576

/** Below the service's own timeout of 15 s. */
const FORWARD_TIMEOUT_MS = 12_000

/** The headers that receivers use. */
const FORWARDED_HEADERS = /^(content-type|user-agent|webhook-.*|x-wiaxy-.*)$/

/** Starts a receiver of webhooks on a free port of this machine. */
export async function startReceiver(
  options: ReceiverOptions,
): Promise<{ readonly url: string; close(): Promise<void> }> {
  const server = createServer((request, response) => {
    receive(request, options).then(
      (status) => response.writeHead(status).end(),
      () => response.destroy(),
    )
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(0, '127.0.0.1', resolve)
  })
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

/** @returns the status to respond with: that of the forwarding target, so that retries are real */
async function receive(request: IncomingMessage, options: ReceiverOptions): Promise<number> {
  const { forwardTo, onReceived } = options
  if (request.method !== 'POST') return 405
  const raw = await readBody(request)
  if (raw === undefined) return 413
  const { headers } = request
  const verification = verifyWebhook(raw, headers, await options.secret)
  const forwarded =
    verification.ok && forwardTo !== undefined ? await forward(forwardTo, headers, raw) : undefined
  onReceived({
    receivedAt: timestampNow(),
    id: String(headers['webhook-id'] ?? ''),
    body: raw.toString('utf8'),
    verification,
    forwarded,
  })
  if (!verification.ok) return 401
  return forwarded === undefined ? 200 : forwarded.status || 502
}

async function readBody(request: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    length += chunk.length
    if (length > BODY_MAX_BYTES) return undefined
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

async function forward(to: string, given: IncomingHttpHeaders, body: Buffer): Promise<Forwarded> {
  const headers = Object.entries(given).flatMap(([name, value]) =>
    FORWARDED_HEADERS.test(name) ? [[name, String(value)] as [string, string]] : [],
  )
  const startedMs = performance.now()
  const tookMs = () => Math.round(performance.now() - startedMs)
  try {
    const response = await fetch(to, {
      method: 'POST',
      headers,
      body: new Uint8Array(body),
      redirect: 'manual',
      signal: AbortSignal.timeout(FORWARD_TIMEOUT_MS),
    })
    await response.body?.cancel()
    return { status: response.status, latencyMs: tookMs(), error: '' }
  } catch (error) {
    const cause = (error as Error).cause ?? error
    return { status: 0, latencyMs: tookMs(), error: (cause as Error).message }
  }
}
