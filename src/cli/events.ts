import { once } from 'node:events'
import type { Timestamp } from '@bufbuild/protobuf/wkt'
import type { Command } from 'commander'
import { type Event, EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
import { EventService } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { EventAudience } from '../../gen/inflow/type/v1/event_kind_pb.ts'
import {
  type EventKindDescription,
  EventKindDescriptionSchema,
  ListEventKindsResponseSchema,
  WebhookService,
} from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import type { Interruption, SubscribeOptions } from '../client/subscribe.ts'
import { formatAmount } from '../core/money.ts'
import { columnsOf } from './columns.ts'
import { YES } from './confirm.ts'
import { localTime, time } from './options.ts'
import { EXIT, Failure, fields, jsonText, note, table, visible } from './output.ts'
import { MODE, rpc } from './rpc-verb.ts'
import {
  printResponse,
  refused,
  type Service,
  serviceAction,
  toJsonForm,
  unreachable,
} from './service-action.ts'
import { addVerbs, calling } from './verb.ts'

const EVENTS_HELP = `
  tail: print events as they happen, until Ctrl-C; --json prints one line for each
  ${MODE}
  --from-beginning  start at the oldest stored event
  --since <time>  start at this time (default: now)
  --cursor <cursor>  start after the event with this cursor
  --kind <kinds...>  only events of these kinds, see events kinds (default: all)
  --business <ids...>  only events of these businesses (default: all)
  Example: events tail --since "2026-11-20 10:00:00" --kind PAYMENT_NOTIFICATION

  kinds: list the kinds of events; of one kind, its JSON schema and an example
  [kind]  show this kind only
  Example: events kinds PAYMENT_NOTIFICATION`

const BUMP_QUESTION =
  'A new epoch begins at the end of the event log. Inflow does this by itself after a failover\n' +
  'or a restore; do it only if it did not. Payments may wait for up to two seconds.'

export function events(noun: Command): void {
  addVerbs(noun, EVENTS_HELP, {
    tail: calling(tail, {
      live: { conflicts: 'test' },
      fromBeginning: { conflicts: ['since', 'cursor'] },
      since: { read: time, conflicts: ['fromBeginning', 'cursor'] },
      cursor: { conflicts: ['fromBeginning', 'since'] },
    }),
    kinds: calling(listKinds),
  })
  addVerbs(
    noun.command('epoch').description('manage the epoch of cursors: bump').helpCommand(false),
    `
    bump: start a new epoch of cursors, after a restore of the database or a failover that lost commits. Earlier cursors are then refused with a safe cursor to resume from, because their positions may now belong to other events
    ${YES}
    Example: events epoch bump --yes`,
    {
      bump: rpc(EventService.method.bumpEpoch, {
        confirms: { word: 'bump', question: BUMP_QUESTION },
        shows: ({ epoch }) => `Epoch ${epoch}`,
        notes: () =>
          'Cursors up to the end of the log stay valid; later ones are refused with a safe cursor.',
      }),
    },
  )
}

/** How long the service may be unavailable before the command fails. */
const UNAVAILABLE_MAX_MS = 10 * 60_000

interface TailOptions {
  readonly live?: boolean
  readonly test?: boolean
  readonly fromBeginning?: boolean
  readonly since?: Timestamp
  readonly cursor?: string
  readonly kind?: readonly string[]
  readonly business?: readonly string[]
}

const tail = serviceAction<TailOptions>(async (service, options) => {
  // Imported here, because only this verb needs it, and other verbs start faster without it.
  const { subscribe, SubscriptionRefused } = await import('../client/subscribe.ts')
  const stop = new AbortController()
  const onSignal = () => stop.abort()
  process.once('SIGINT', onSignal).once('SIGTERM', onSignal)
  const timeout = createTimeout(service, stop)
  let cursor: string | undefined
  let refusal: Failure | undefined
  const subscription: SubscribeOptions = {
    addresses: [service.url],
    token: service.token,
    ...(service.url.startsWith('https:') && { tls: service.tls }),
    start: startOf(options),
    kinds: options.kind ?? [],
    businessIds: options.business ?? [],
    ...((options.live || options.test) && { live: options.live === true }),
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
      // Wait for a slow reader of stdout: that slows down the stream instead of using memory.
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

const SENT_TO: Readonly<Record<EventAudience, string>> = {
  [EventAudience.UNSPECIFIED]: '',
  [EventAudience.ENDPOINTS]: 'all endpoints',
  [EventAudience.ON_REQUEST]: 'endpoints with --kind',
  [EventAudience.ONE_ENDPOINT]: 'its endpoint',
  [EventAudience.SUBSCRIBERS]: 'subscribers only',
}

const KINDS = columnsOf(EventKindDescriptionSchema, 'kind, Sent to, description=When', {
  'Sent to': ({ audience }) => SENT_TO[audience] ?? '',
})

const listKinds = serviceAction<object>(async (service, options, name) => {
  const response = await service.client(WebhookService).listEventKinds({})
  if (name === '') {
    const text = () => table(response.kinds, KINDS.list)
    printResponse(options, ListEventKindsResponseSchema, response, text)
    return
  }
  const found = response.kinds.find(({ kind }) => kind === name)
  if (found === undefined) {
    const names = response.kinds.map(({ kind }) => kind).join(', ')
    throw new Failure(EXIT.refused, `there is no event kind ${name}`, [`the kinds are ${names}`])
  }
  printResponse(options, EventKindDescriptionSchema, found, () => textOf(found))
})

function textOf(kind: EventKindDescription): string {
  const parts = [fields(kind, KINDS.list)]
  if (kind.example) parts.push(`Example:\n${JSON.stringify(kind.example, null, 2)}`)
  if (kind.schema) parts.push(`JSON schema:\n${JSON.stringify(kind.schema, null, 2)}`)
  return parts.join('\n\n')
}
