import { once } from 'node:events'
import { hostname } from 'node:os'
import type { Client } from '@connectrpc/connect'
import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { localTime } from '../local-time.ts'
import { jsonText, note, print, visible } from '../output.ts'
import { serviceAction } from '../service-action.ts'
import { type Received, startReceiver } from './receiver.ts'

interface ListenOptions {
  readonly business?: string
  readonly forwardTo?: string
  readonly kind?: readonly string[]
  readonly test?: boolean
}

/** Marks the temporary endpoint, so that a later listener recognizes one left behind. */
const DESCRIPTION = 'inflow webhook listen'

/** `inflow webhook listen` */
export const listen = serviceAction<ListenOptions>(async (service, options) => {
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

/** Removes the endpoints of killed listeners on this machine, and reports other listeners. */
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
