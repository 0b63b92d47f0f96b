import { once } from 'node:events'
import type { Timestamp } from '@bufbuild/protobuf/wkt'
import { type Command, Option } from 'commander'
import { type Event, EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
import type { SubscribeRequest } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { formatAmount } from '../money.ts'
import { toJsonForm } from './answer.ts'
import { follow } from './follow.ts'
import { localTime } from './local-time.ts'
import { time } from './options.ts'
import { note, visible } from './output.ts'
import { calling } from './service.ts'
import { addServiceOptions, addVerb } from './verb.ts'

/** `inflow events` */
export function events(noun: Command): void {
  const starts = ['fromBeginning', 'since', 'cursor']
  const start = (flags: string, text: string) => {
    const option = new Option(flags, text)
    return option.conflicts(starts.filter((name) => name !== option.attributeName()))
  }
  addVerb(noun, 'tail', {
    summary: 'print events as they happen, until Ctrl-C; with --json one line for each',
    example: 'events tail --since "2026-11-20 10:00:00" --kind PAYMENT_NOTIFICATION',
  })
    .addOption(start('--from-beginning', 'start at the oldest event that is kept'))
    .addOption(start('--since <time>', 'start at this time (default: now)').argParser(time))
    .addOption(start('--cursor <cursor>', 'start after the event that carried this cursor'))
    .option('--kind <kinds...>', 'only events of these kinds (default: of all)')
    .option('--business <ids...>', 'only events of these businesses (default: of all)')
    .action(tail)
  addServiceOptions(noun)
}

interface TailOptions {
  readonly fromBeginning?: boolean
  readonly since?: Timestamp
  readonly cursor?: string
  readonly kind?: readonly string[]
  readonly business?: readonly string[]
}

const tail = calling<TailOptions>(async (service, options) => {
  const stop = new AbortController()
  const onSignal = () => stop.abort()
  process.once('SIGINT', onSignal).once('SIGTERM', onSignal)
  const cursor = await follow({
    service,
    start: startOf(options),
    filters: { kinds: [...(options.kind ?? [])], businessIds: [...(options.business ?? [])] },
    signal: stop.signal,
    note,
    async onEvent(event) {
      const line = options.json ? JSON.stringify(toJsonForm(EventSchema, event)) : lineOf(event)
      // Waiting for a slow reader holds back the stream, rather than filling the memory.
      if (!process.stdout.write(`${line}\n`)) await once(process.stdout, 'drain')
    },
  })
  if (cursor !== undefined) note(`To go on from here: --cursor ${cursor}`)
})

function startOf(options: TailOptions): SubscribeRequest['start'] {
  if (options.cursor !== undefined) return { case: 'cursor', value: options.cursor }
  if (options.since) return { case: 'since', value: options.since }
  if (options.fromBeginning) return { case: 'beginning', value: true }
  return { case: undefined }
}

function lineOf(event: Event): string {
  const cells = [
    localTime.format(event.occurredAt),
    event.businessId,
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
  return []
}
