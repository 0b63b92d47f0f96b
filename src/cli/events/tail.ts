import { once } from 'node:events'
import type { Timestamp } from '@bufbuild/protobuf/wkt'
import { type Event, EventSchema } from '../../../gen/inflow/event/v1/event_pb.ts'
import type { Interruption, SubscribeOptions } from '../../client/subscribe.ts'
import { formatAmount } from '../../core/money.ts'
import type { Failure } from '../failure.ts'
import { localTime } from '../local-time.ts'
import { type ModeOptions, modeOf } from '../options.ts'
import { note, visible } from '../output.ts'
import { toJsonForm } from '../print-response.ts'
import { refused, type Service, serviceAction, unreachable } from '../service-action.ts'

/** How long the service may stay away before it is given up. */
const AWAY_MAX_MS = 10 * 60_000

interface TailOptions extends ModeOptions {
  readonly fromBeginning?: boolean
  readonly since?: Timestamp
  readonly cursor?: string
  readonly kind?: readonly string[]
  readonly business?: readonly string[]
}

/** `inflow events tail` */
export const tail = serviceAction<TailOptions>(async (service, options) => {
  // Only this verb needs a second gRPC client: without it the others start faster.
  const { subscribe, SubscriptionRefused } = await import('../../client/subscribe.ts')
  const stop = new AbortController()
  const onSignal = () => stop.abort()
  process.once('SIGINT', onSignal).once('SIGTERM', onSignal)
  const patience = createTimeout(service, stop)
  let cursor: string | undefined
  let refusal: Failure | undefined
  const subscription: SubscribeOptions = {
    addresses: [addressOf(service.url)],
    token: service.token,
    ...(service.url.startsWith('https:') && { tls: service.tls }),
    start: startOf(options),
    kinds: options.kind ?? [],
    businessIds: options.business ?? [],
    ...modeOf(options),
    signal: stop.signal,
    onInterruption: patience.interrupted,
    onCheckpoint(at) {
      cursor = at
      patience.heard()
    },
  }
  try {
    for await (const event of subscribe(subscription)) {
      const line = options.json ? JSON.stringify(toJsonForm(EventSchema, event)) : lineOf(event)
      // Waiting for a slow reader holds back the stream, rather than filling the memory.
      if (!process.stdout.write(`${line}\n`)) await once(process.stdout, 'drain')
      cursor = event.cursor
      patience.heard()
    }
  } catch (error) {
    if (!(error instanceof SubscriptionRefused)) throw error
    const safe = error.cursor && `go on where it is safe: --cursor ${error.cursor}`
    refusal = refused(error.message, error.reason, error.code as number, safe ? [safe] : [])
    if (safe) cursor = undefined
  } finally {
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal)
  }
  if (cursor !== undefined) note(`To go on from here: --cursor ${cursor}`)
  const failure = refusal ?? patience.lost()
  if (failure) throw failure
})

/** Tells of interruptions, and ends the subscription when nobody answers. */
function createTimeout(service: Service, stop: AbortController) {
  let answered = false
  let awaySinceMs: number | undefined
  let failure: Failure | undefined
  return {
    heard() {
      answered = true
      awaySinceMs = undefined
    },
    interrupted({ message, reason }: Interruption, retryMs: number) {
      answered ||= reason !== ''
      awaySinceMs ??= performance.now()
      if (!answered || performance.now() - awaySinceMs > AWAY_MAX_MS) {
        failure = unreachable(service.url, message)
        stop.abort()
      } else note(`Interrupted (${message}); resuming in ${(retryMs / 1000).toFixed(1)} s.`)
    },
    lost: () => failure,
  }
}

/** `host:port`, with the port that a URL may leave out. */
function addressOf(url: string): string {
  const { hostname, port, protocol } = new URL(url)
  return `${hostname}:${port || (protocol === 'https:' ? 443 : 80)}`
}

function startOf(options: TailOptions): SubscribeOptions['start'] {
  if (options.cursor !== undefined) return { case: 'cursor', value: options.cursor }
  if (options.since) return { case: 'since', value: options.since }
  if (options.fromBeginning) return { case: 'beginning', value: true }
  return undefined
}

function lineOf(event: Event): string {
  const cells = [
    localTime.format(event.occurredAt),
    event.businessId,
    event.live ? '' : 'test',
    `#${event.businessSequence}`,
    event.kind,
    ...payloadOf(event),
  ]
  return visible(cells.filter((cell) => cell !== '').join('  '))
}

function payloadOf({ payload }: Event): string[] {
  if (payload.case === 'transaction') {
    const { amountMinor, currency, accountReference, sessionId, payer } = payload.value
    const from = payer?.name ? `from ${payer.name}` : ''
    return [`${formatAmount(amountMinor)} ${currency}`, accountReference, sessionId, from]
  }
  if (payload.case === 'account') {
    const { reference, accountNumber, accountName } = payload.value
    return [reference, accountNumber, accountName]
  }
  if (payload.case === 'endpoint') return [payload.value.id, payload.value.url]
  return []
}
