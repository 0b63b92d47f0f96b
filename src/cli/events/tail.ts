import { once } from 'node:events'
import type { Timestamp } from '@bufbuild/protobuf/wkt'
import { type Event, EventSchema } from '../../../gen/inflow/event/v1/event_pb.ts'
import type { Interruption, SubscribeOptions } from '../../client/subscribe.ts'
import { formatAmount } from '../../core/money.ts'
import type { Failure } from '../failure.ts'
import { localTime } from '../local-time.ts'
import { type ModeOptions, modeOf } from '../options.ts'
import { jsonText, note, visible } from '../output.ts'
import { toJsonForm } from '../print-response.ts'
import { refused, type Service, serviceAction, unreachable } from '../service-action.ts'

/** How long the service may be unavailable before the command fails. */
const UNAVAILABLE_MAX_MS = 10 * 60_000

interface TailOptions extends ModeOptions {
  readonly fromBeginning?: boolean
  readonly since?: Timestamp
  readonly cursor?: string
  readonly kind?: readonly string[]
  readonly business?: readonly string[]
}

/** `inflow events tail` */
export const tail = serviceAction<TailOptions>(async (service, options) => {
  // Imported here, because only this verb needs it and the others start faster without it.
  const { subscribe, SubscriptionRefused } = await import('../../client/subscribe.ts')
  const stop = new AbortController()
  const onSignal = () => stop.abort()
  process.once('SIGINT', onSignal).once('SIGTERM', onSignal)
  const timeout = createTimeout(service, stop)
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
    onInterruption: timeout.onInterruption,
    onCheckpoint(at) {
      cursor = at
      timeout.onItem()
    },
  }
  try {
    for await (const event of subscribe(subscription)) {
      const line = options.json ? jsonText(toJsonForm(EventSchema, event)) : lineOf(event)
      // Wait for a slow reader of stdout, which slows the stream down instead of using memory.
      if (!process.stdout.write(`${line}\n`)) await once(process.stdout, 'drain')
      cursor = event.cursor
      timeout.onItem()
    }
  } catch (error) {
    if (!(error instanceof SubscriptionRefused)) throw error
    const safe = error.cursor && `resume safely with: --cursor ${error.cursor}`
    refusal = refused(error.message, error.reason, error.code as number, safe ? [safe] : [])
    if (safe) cursor = undefined
  } finally {
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal)
  }
  if (cursor !== undefined) note(`To resume from here: --cursor ${cursor}`)
  const failure = refusal ?? timeout.failure()
  if (failure) throw failure
})

/** Prints interruptions, and ends the subscription if the service stays unavailable. */
function createTimeout(service: Service, stop: AbortController) {
  let reached = false
  let unavailableSinceMs: number | undefined
  let failure: Failure | undefined
  return {
    onItem() {
      reached = true
      unavailableSinceMs = undefined
    },
    onInterruption({ message, reason }: Interruption, retryMs: number) {
      reached ||= reason !== ''
      unavailableSinceMs ??= performance.now()
      if (!reached || performance.now() - unavailableSinceMs > UNAVAILABLE_MAX_MS) {
        failure = unreachable(service.url, message)
        stop.abort()
      } else note(`Interrupted (${message}); resuming in ${(retryMs / 1000).toFixed(1)} s.`)
    },
    failure: () => failure,
  }
}

/** Returns `host:port`, with the default port if the URL has none. */
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
