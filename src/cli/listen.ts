import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { hostname } from 'node:os'
import { type Timestamp, timestampNow } from '@bufbuild/protobuf/wkt'
import type { Client } from '@connectrpc/connect'
import { type Command, InvalidArgumentError } from 'commander'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { verifyWebhook, type WebhookVerification } from '../client/verify-webhook.ts'
import { localTime } from './options.ts'
import { jsonText, note, print, visible } from './output.ts'
import { BUSINESS } from './rpc-verb.ts'
import { serviceAction } from './service-action.ts'
import { addVerbs, calling } from './verb.ts'

const LISTEN_HELP = `
  listen: receive events until Ctrl-C through a temporary endpoint on a local service: verify, print and optionally forward each
  ${BUSINESS}
  --forward-to <url>  forward each event to this URL and return its response
  --kind <kinds...>  event kinds, see events kinds (default: all except ACCOUNT_CREATED)
  --test  receive events of test mode instead of live mode
  Example: webhook listen --forward-to http://localhost:3000/webhooks`

/** Adds `inflow webhook listen`. */
export function addListenVerb(noun: Command): void {
  addVerbs(noun, LISTEN_HELP, { listen: calling(listen, { forwardTo: { read: readUrl } }) })
}

function readUrl(text: string): string {
  if (URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)) return text
  throw new InvalidArgumentError('Must be a URL such as http://localhost:3000/webhooks.')
}

interface ListenOptions {
  readonly business?: string
  readonly forwardTo?: string
  readonly kind?: readonly string[]
  readonly test?: boolean
}

/** Marks the temporary endpoint, so that a later listener recognizes an endpoint that was left behind. */
const DESCRIPTION = 'inflow webhook listen'

const listen = serviceAction<ListenOptions>(async (service, options) => {
  const client = service.client(WebhookService)
  const businessId = service.business(options.business)
  const stop = new AbortController()
  const onSignal = () => stop.abort()
  process.once('SIGINT', onSignal).once('SIGTERM', onSignal)
  await removeStale(client, businessId)

  let resolveSecret = (_secret: string): void => undefined
  const receiver = await startReceiver({
    secret: new Promise((resolve) => {
      resolveSecret = resolve
    }),
    forwardTo: options.forwardTo,
    onReceived: (received) => print(options.json ? jsonOf(received) : textOf(received)),
  })
  try {
    const created = await client.createEndpoint({
      businessId,
      url: receiver.url,
      kinds: [...(options.kind ?? [])],
      test: options.test ?? false,
      description: `${DESCRIPTION}, ${hostname().slice(0, 64)} pid ${process.pid}`,
    })
    const endpointId = created.endpoint?.id ?? ''
    resolveSecret(created.secret)
    note(`Listening as ${endpointId} at ${receiver.url}; Ctrl-C stops and removes the endpoint.`)
    note(`Its signing secret: ${created.secret}`)
    if (!stop.signal.aborted) await once(stop.signal, 'abort')
    await remove(client, endpointId)
  } finally {
    await receiver.close()
  }
})

async function remove(client: Client<typeof WebhookService>, endpointId: string): Promise<void> {
  try {
    await client.deleteEndpoint({ endpointId })
    note(`Removed ${endpointId}.`)
  } catch (error) {
    note(`The endpoint still exists; remove it: inflow webhook remove ${endpointId}`)
    throw error
  }
}

/** Removes the endpoints of killed listeners on this machine, and mentions other listeners. */
async function removeStale(client: Client<typeof WebhookService>, businessId: string) {
  const { endpoints } = await client.listEndpoints({ businessId })
  for (const { id, description } of endpoints) {
    const [, host, pid] = /^inflow webhook listen, (.+) pid (\d+)$/.exec(description) ?? []
    if (pid === undefined) continue
    if (host === hostname().slice(0, 64) && !isRunning(Number(pid))) {
      await client.deleteEndpoint({ endpointId: id })
      note(`Removed ${id}, which an earlier listener left behind.`)
    } else {
      note(`Another listener is also receiving: ${id} (${description}).`)
    }
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}

/** A summary line, and the body as received. */
function textOf({ receivedAt, id, verification, forwarded, body }: Received): string {
  const cells = [localTime.format(receivedAt)]
  if (verification.ok) {
    const { event, data } = verification.event
    cells.push(event, `#${data.sequence}`, id, 'signature verified')
  } else cells.push(id, `NOT VERIFIED: ${verification.reason}`)
  if (forwarded) {
    cells.push(`forwarded: ${forwarded.error || forwarded.status} (${forwarded.latencyMs} ms)`)
  }
  return `${visible(cells.join('  '))}\n${visible(body)}\n`
}

function jsonOf({ receivedAt, id, verification, forwarded, body }: Received): string {
  return jsonText({
    receivedAt: new Date(Number(receivedAt.seconds) * 1_000).toISOString(),
    webhookId: id,
    verified: verification.ok,
    ...(!verification.ok && { reason: verification.reason }),
    ...(forwarded && { forwarded }),
    body,
  })
}

/** One received webhook. */
interface Received {
  readonly receivedAt: Timestamp
  readonly id: string
  readonly body: string
  readonly verification: WebhookVerification
  readonly forwarded: Forwarded | undefined
}

/** The outcome of forwarding a webhook. */
interface Forwarded {
  /** The status of the response; 0: no response. */
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

/** The headers that are forwarded, because receivers use them. */
const FORWARDED_HEADERS = /^(content-type|user-agent|webhook-.*|x-wiaxy-.*)$/

/** Starts a receiver of webhooks on a free port of this machine. */
async function startReceiver(
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
