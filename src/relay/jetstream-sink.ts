import { readFile } from 'node:fs/promises'
import {
  DiscardPolicy,
  JetStreamApiCodes,
  JetStreamApiError,
  type JetStreamClient,
  type JetStreamManager,
  jetstream,
  jetstreamManager,
  RetentionPolicy,
  StorageType,
  type StoredMsg,
  type StreamConfig,
  type StreamInfo,
} from '@nats-io/jetstream'
import {
  connect,
  credsAuthenticator,
  headers,
  type NatsConnection,
  nanos,
} from '@nats-io/transport-node'
import { type EventMessage, type EventSink, type MirrorStream, SinkConflict } from './event-sink.ts'

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
    // NATS 2.9 sometimes crashes on a request for the last message of an empty stream.
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

/** The stream that accepts events, or else the latest stream that has ended; undefined: there is none. */
export async function findLatest(manager: JetStreamManager): Promise<StreamInfo | undefined> {
  const names: string[] = []
  for (const subjects of [SUBJECTS, ENDED_SUBJECTS]) {
    if (names.length === 0)
      for await (const name of manager.streams.names(subjects)) names.push(name)
  }
  const [latest] = names.sort((a, b) => numberOf(b) - numberOf(a))
  return latest === undefined ? undefined : manager.streams.info(latest)
}

/** Throws a SinkConflict if the error is a conflict, or else the error. */
function refuse(error: unknown): never {
  if (error instanceof JetStreamApiError && CONFLICTS.includes(error.code)) {
    throw new SinkConflict(error.message, { cause: error })
  }
  throw error
}

/** The time-out of a connection attempt and of a request. */
const CONNECT_MS = 5_000
export const REQUEST_MS = 5_000

/** The interval of pings, which detect a dead connection. */
const PING_MS = 10_000

/** The addresses of the NATS servers, and the credentials. */
export interface NatsSettings {
  /** `host:port` of each. */
  readonly servers: readonly string[]
  readonly tls: boolean
  readonly user: string | undefined
  readonly password: string | undefined
  readonly token: string | undefined
  readonly credentialsFile: string | undefined
  readonly caFile: string | undefined
}

/**
 * Connects to the first server that responds. The connection does not reconnect by itself, because the relay has to compare
 * the stream with the log after each new connection.
 */
export async function connectNats(settings: NatsSettings): Promise<NatsConnection> {
  const { servers, tls, user, password, token, credentialsFile, caFile } = settings
  return connect({
    servers: [...servers],
    name: 'inflow-relay',
    timeout: CONNECT_MS,
    reconnect: false,
    pingInterval: PING_MS,
    // A stack trace for each request costs more than the request.
    noAsyncTraces: true,
    ...(user !== undefined && { user, pass: password ?? '' }),
    ...(token !== undefined && { token }),
    ...(credentialsFile !== undefined && {
      authenticator: credsAuthenticator(await readFile(credentialsFile)),
    }),
    ...((tls || caFile !== undefined) && { tls: caFile === undefined ? {} : { caFile } }),
  })
}

/** The manager of streams. @throws Error if the account has no JetStream */
export function manageStreams(connection: NatsConnection): Promise<JetStreamManager> {
  return jetstreamManager(connection, { timeout: REQUEST_MS })
}

/** The subjects of the stream that accepts events. */
export const SUBJECTS = 'inflow.events.>'

/** The subjects of ended streams, because two streams cannot have the same subjects. */
export const ENDED_SUBJECTS = 'inflow.ended.>'

const NAME = /^INFLOW_EVENTS_(\d{1,9})$/
const DESCRIPTION = /^Inflow event log, epoch (\d{1,9}): sequence 1 is position (\d{1,18})/

/**
 * How long the server remembers message ids. This is short, because only instances that publish the same event at the same
 * time need it, and each id takes memory.
 */
const DUPLICATES_MS = 10_000

/** The settings of the first stream. A later stream takes the settings of its predecessor. */
export interface StreamSettings {
  readonly replicas: number
  /** How long messages are kept. */
  readonly retentionMs: number
}

/** An event of no business, such as an unmatched payment, has `_` in its place: no stream captures an empty token. */
export const subjectOf = ({ mode, businessId, kind }: EventMessage): string =>
  `inflow.events.${mode}.${businessId || '_'}.${kind}`

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

/** The epoch and position in the description of a stream. @throws Error if the description was changed */
export function placeOfStream({ config }: StreamInfo): Pick<MirrorStream, 'epoch' | 'after'> {
  const [, epoch, first] = DESCRIPTION.exec(config.description ?? '') ?? []
  if (epoch === undefined || first === undefined) {
    throw new Error(
      `the description of the stream ${config.name} does not begin like "${describe({ epoch: 1, after: 0n })}"`,
    )
  }
  return { epoch: Number(epoch), after: BigInt(first) - 1n }
}

/** The configuration of a new stream. Messages cannot be deleted from it, because the stream must mirror the log. */
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

/** The description of a stream, from which consumers learn how streams follow each other. */
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
