import {
  JetStreamApiCodes,
  JetStreamApiError,
  type JetStreamClient,
  type JetStreamManager,
  jetstream,
  type StoredMsg,
  type StreamConfig,
  type StreamInfo,
} from '@nats-io/jetstream'
import { headers, type NatsConnection } from '@nats-io/transport-node'
import { type EventMessage, type EventSink, type MirrorStream, SinkConflict } from './event-sink.ts'
import {
  connectNats,
  manageStreams,
  type NatsSettings,
  REQUEST_MS,
} from './jetstream-connection.ts'
import {
  configOf,
  ENDED_SUBJECTS,
  endedSubjects,
  numberOf,
  placeOfStream,
  type StreamSettings,
  SUBJECTS,
  subjectOf,
} from './stream-config.ts'

/** Errors of the JetStream API that the library does not name. */
const NAME_IN_USE = 10_058
const SUBJECTS_OVERLAP = 10_065
const OTHER_STREAM = 10_060

const CONFLICTS: readonly number[] = [
  JetStreamApiCodes.StreamWrongLastSequence,
  JetStreamApiCodes.StreamWrongLastSequenceUnknown,
  OTHER_STREAM,
  NAME_IN_USE,
  SUBJECTS_OVERLAP,
]

/** Connects to NATS. @throws Error if no server responds, or the account has no JetStream */
export async function openJetStreamSink(
  nats: NatsSettings,
  settings: StreamSettings,
): Promise<EventSink> {
  const connection = await connectNats(nats)
  try {
    return new JetStreamSink(connection, await manageStreams(connection), settings)
  } catch (error) {
    await connection.close()
    throw error
  }
}

/** Streams `INFLOW_EVENTS_<number>` of NATS JetStream. */
class JetStreamSink implements EventSink {
  readonly #connection: NatsConnection
  readonly #manager: JetStreamManager
  readonly #client: JetStreamClient
  readonly #settings: StreamSettings

  constructor(connection: NatsConnection, manager: JetStreamManager, settings: StreamSettings) {
    this.#connection = connection
    this.#manager = manager
    this.#client = jetstream(connection, { timeout: REQUEST_MS })
    this.#settings = settings
  }

  async latest(): Promise<MirrorStream | undefined> {
    const info = await findLatest(this.#manager)
    return info && this.#read(info)
  }

  async end({ name }: MirrorStream): Promise<MirrorStream> {
    return this.#read(await this.#manager.streams.update(name, { subjects: endedSubjects(name) }))
  }

  async begin(next: Pick<MirrorStream, 'epoch' | 'after'>, previous?: MirrorStream): Promise<void> {
    const { streams } = this.#manager
    const of = previous && {
      stream: previous,
      config: (await streams.info(previous.name)).config as StreamConfig,
    }
    await streams.add(configOf(next, this.#settings, of)).catch(refuse)
  }

  async append(stream: MirrorStream, message: EventMessage): Promise<void> {
    const { position, id } = message
    const header = headers()
    header.set('Content-Type', message.contentType)
    header.set('Inflow-Position', `${position}`)
    header.set('Inflow-Epoch', `${message.epoch}`)
    header.set('Inflow-Cursor', message.cursor)
    if (message.traceparent !== undefined) header.set('traceparent', message.traceparent)
    const lastSequence = Number(position - stream.after - 1n)
    const { duplicate } = await this.#client
      .publish(subjectOf(message), message.body, {
        msgID: id,
        headers: header,
        expect: { lastSequence, streamName: stream.name },
      })
      .catch(refuse)
    if (duplicate) throw new SinkConflict(`another instance published ${id}`)
  }

  close(): Promise<void> {
    return this.#connection.close()
  }

  async #read(info: StreamInfo): Promise<MirrorStream> {
    const { name, subjects } = info.config
    const { epoch, after } = placeOfStream(info)
    const stored = await this.#readLast(info)
    const last = stored && {
      position: after + BigInt(stored.seq),
      cursor: stored.header.get('Inflow-Cursor'),
    }
    const end = after + BigInt(Math.max(info.state.last_seq, stored?.seq ?? 0))
    return { name, epoch, after, end, last, isOpen: subjects.includes(SUBJECTS) }
  }

  /** The last message that is stored; undefined: none. */
  async #readLast({ config: { name }, state }: StreamInfo): Promise<StoredMsg | undefined> {
    // NATS 2.9 crashes now and then when it is asked for the last message of a stream that is empty.
    if (state.messages === 0) return undefined
    const { streams } = this.#manager
    const last = await streams.getMessage(name, { last_by_subj: '>' })
    if (last !== null) return last
    // NATS 2.9 finds no last message if messages at the end were deleted.
    const { state: detailed } = await streams.info(name, { deleted_details: true })
    const deleted = new Set(detailed.deleted)
    let sequence = detailed.last_seq
    while (deleted.has(sequence)) sequence -= 1
    return (await streams.getMessage(name, { seq: sequence })) ?? undefined
  }
}

/** The stream that takes events, or else the latest one that has ended; undefined: there is none. */
export async function findLatest(manager: JetStreamManager): Promise<StreamInfo | undefined> {
  const names: string[] = []
  for (const subjects of [SUBJECTS, ENDED_SUBJECTS]) {
    if (names.length === 0)
      for await (const name of manager.streams.names(subjects)) names.push(name)
  }
  const [latest] = names.sort((a, b) => numberOf(b) - numberOf(a))
  return latest === undefined ? undefined : manager.streams.info(latest)
}

/** Throws the error as a conflict, if it is one. */
function refuse(error: unknown): never {
  if (error instanceof JetStreamApiError && CONFLICTS.includes(error.code)) {
    throw new SinkConflict(error.message, { cause: error })
  }
  throw error
}
