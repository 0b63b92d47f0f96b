import {
  DiscardPolicy,
  RetentionPolicy,
  StorageType,
  type StreamConfig,
  type StreamInfo,
} from '@nats-io/jetstream'
import { nanos } from '@nats-io/transport-node'
import type { EventMessage, MirrorStream } from './event-sink.ts'

/** What the stream that takes events captures. */
export const SUBJECTS = 'inflow.events.>'

/** What ended streams capture, since two streams cannot have the same subjects. */
export const ENDED_SUBJECTS = 'inflow.ended.>'

const NAME = /^INFLOW_EVENTS_(\d{1,9})$/
const DESCRIPTION = /^Inflow event log, epoch (\d{1,9}): sequence 1 is position (\d{1,18})/

/**
 * How long the server remembers message ids: only instances that publish the same event at the same time
 * need that, and each id takes memory.
 */
const DUPLICATES_MS = 10_000

/** The settings of a first stream. A later one takes its predecessor's. */
export interface StreamSettings {
  readonly replicas: number
  /** How long messages are kept. */
  readonly retentionMs: number
}

export const subjectOf = ({ mode, businessId, kind }: EventMessage): string =>
  `inflow.events.${mode}.${businessId}.${kind}`

/** The number of a stream of the relay. @throws Error for another stream */
export function numberOf(name: string): number {
  const [, number] = NAME.exec(name) ?? []
  if (number === undefined) {
    throw new Error(`the stream ${name} captures ${SUBJECTS}, and is not of the relay`)
  }
  return Number(number)
}

/** The subjects of a stream once it has ended. */
export const endedSubjects = (name: string): string[] => [ENDED_SUBJECTS.replace('>', name)]

/** The facts in the description of a stream. @throws Error if it was changed */
export function placeOfStream({ config }: StreamInfo): Pick<MirrorStream, 'epoch' | 'after'> {
  const [, epoch, first] = DESCRIPTION.exec(config.description ?? '') ?? []
  if (epoch === undefined || first === undefined) {
    throw new Error(
      `the description of the stream ${config.name} does not begin like "${describe({ epoch: 1, after: 0n })}"`,
    )
  }
  return { epoch: Number(epoch), after: BigInt(first) - 1n }
}

/** The configuration of a new stream, which no one may delete messages from: it would be no mirror. */
export function configOf(
  next: Pick<MirrorStream, 'epoch' | 'after'>,
  settings: StreamSettings,
  previous: { readonly stream: MirrorStream; readonly config: StreamConfig } | undefined,
): Partial<StreamConfig> & { name: string } {
  const number = previous === undefined ? 1 : numberOf(previous.stream.name) + 1
  return {
    retention: RetentionPolicy.Limits,
    storage: StorageType.File,
    discard: DiscardPolicy.Old,
    num_replicas: settings.replicas,
    max_age: nanos(settings.retentionMs),
    duplicate_window: nanos(Math.min(DUPLICATES_MS, settings.retentionMs)),
    deny_delete: true,
    deny_purge: true,
    ...previous?.config,
    name: `INFLOW_EVENTS_${number}`,
    description: describe(next, previous?.stream),
    subjects: [SUBJECTS],
  }
}

/** Consumers read it to learn how streams follow each other. */
function describe(
  { epoch, after }: Pick<MirrorStream, 'epoch' | 'after'>,
  previous?: MirrorStream,
): string {
  const parts = [`Inflow event log, epoch ${epoch}: sequence 1 is position ${after + 1n}`]
  if (previous === undefined) return parts.join('; ')
  const { name, end } = previous
  if (after > end) {
    parts.push(
      `continues ${name}`,
      `positions ${end + 1n} to ${after} are missing: they were deleted before they were published`,
    )
  } else if (after > previous.after) {
    parts.push(`continues ${name} after its sequence ${after - previous.after}`)
  } else parts.push(`replaces ${name}`)
  return parts.join('; ')
}
