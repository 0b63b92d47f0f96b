import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from 'node:http2'
import { boundTimeouts } from '../connect/timeouts.ts'
import type { GrpcConnection } from './connection.ts'
import type { GrpcConnections } from './connections.ts'
import type { GrpcLimits } from './limits.ts'
import { REQUEST_ID } from './status.ts'

/** What is known of a method before a call of it is handled. */
export interface MethodTraits {
  readonly kind: 'unary' | 'stream' | 'reflection'
  /** Whether it asks for no credential. */
  readonly open: boolean
}

export interface StreamWatch {
  /** Resets the stream that was answered with this request id, if it is still open. */
  reset(requestId: string): void
  stop(): void
}

/** Published by Node for each stream of each server, before the server's own event. */
const CREATED = 'http2.server.stream.created'

interface Created {
  readonly stream: ServerHttp2Stream
  readonly headers: IncomingHttpHeaders
}

/** Headers that grpc-js repeats in errors, and how much of them it may. */
const REPEATED = [':path', 'grpc-timeout', 'grpc-encoding']
const REPEATED_CHARACTERS_MAX = 200

const CHECK_MS = 1_000

/** Large headers are in memory before they can be refused, and cost a few bytes to repeat. */
const LARGE_HEADERS_WEIGHT = 20

/** Paths that are not known are answered UNIMPLEMENTED at once. */
const UNKNOWN: MethodTraits = { kind: 'unary', open: true }

/** A stream that is open. */
interface OpenStream {
  readonly stream: ServerHttp2Stream
  readonly connection: GrpcConnection
  readonly traits: MethodTraits
  readonly startedMs: number
  bodyBytes: number
  /** When the answer was first seen to wait for the client. */
  answeredMs: number | undefined
}

/**
 * Bounds what clients make the server hold, whatever they do with their windows: streams, headers,
 * incomplete requests, and answers that they do not take. grpc-js hands out calls only once their
 * requests are complete, so the streams of HTTP/2 under it are watched.
 *
 * @param traits by path
 */
export function watchStreams(
  connections: GrpcConnections,
  traits: ReadonlyMap<string, MethodTraits>,
  limits: GrpcLimits,
): StreamWatch {
  const open = new Set<OpenStream>()
  let fresh: OpenStream[] = []

  const watchFresh = (): void => {
    const turn = fresh
    fresh = []
    for (const each of turn) {
      // Almost every request is complete in the turn that it began in.
      const { stream } = each
      if (!stream.readableEnded && !stream.closed) watchBody(each, limits)
    }
  }
  const onCreated = (message: unknown): void => {
    const { stream, headers } = message as Created
    const connection = stream.session && connections.of(stream.session)
    if (connection === undefined) return
    adjust(headers)
    const headerBytes = sizeOf(headers)
    const { usage } = connection
    const each: OpenStream = {
      stream,
      connection,
      traits: traits.get(headers[':path'] ?? '') ?? UNKNOWN,
      startedMs: performance.now(),
      bodyBytes: 0,
      answeredMs: undefined,
    }
    open.add(each)
    stream.once('close', () => {
      open.delete(each)
      usage.removeStream()
      usage.release(headerBytes)
    })
    connection.streamOpened()
    const fits = usage.addStream()
    // Headers only count: a neighbour with large requests must not keep others from calling.
    usage.hold(headerBytes)
    if (isCompressed(headers)) watchCompressed(each, limits)
    // What follows comes after grpc-js has got the stream: it cannot answer one that is closed.
    if (headerBytes > limits.headerBytesMax) {
      queueMicrotask(() => connection.refuse(stream, LARGE_HEADERS_WEIGHT))
    } else if (!fits) {
      queueMicrotask(() => connection.refuse(stream))
    } else if (fresh.push(each) === 1) setImmediate(watchFresh)
  }
  const check = (): void => {
    const nowMs = performance.now()
    for (const each of open) checkStream(each, nowMs, limits)
    connections.check(nowMs)
  }
  const { requestMs, answerMs, reflectionMs, greetingMs } = limits
  const everyMs = Math.min(CHECK_MS, requestMs, answerMs, reflectionMs, greetingMs)
  const timer = setInterval(check, everyMs).unref()
  subscribe(CREATED, onCreated)
  return {
    reset(requestId) {
      for (const { stream } of open) {
        if (stream.sentHeaders?.[REQUEST_ID] === requestId) stream.close(constants.NGHTTP2_CANCEL)
      }
    },
    stop() {
      unsubscribe(CREATED, onCreated)
      clearInterval(timer)
    },
  }
}

/** Without it, a few bytes of a compressed header would draw many of an error. */
function adjust(headers: IncomingHttpHeaders): void {
  for (const name of REPEATED) {
    const value = headers[name]
    if (typeof value === 'string' && value.length > REPEATED_CHARACTERS_MAX) {
      headers[name] = value.slice(0, REPEATED_CHARACTERS_MAX)
    }
  }
  // grpc-js takes more than 24 days for a time that has passed.
  if (headers['grpc-timeout'] !== undefined) boundTimeouts(headers)
}

function sizeOf(headers: IncomingHttpHeaders): number {
  let bytes = 0
  for (const name of Object.keys(headers)) {
    const value = headers[name]
    bytes += name.length
    if (typeof value === 'string') bytes += value.length
    else for (const each of value ?? []) bytes += each.length
  }
  return bytes
}

function isCompressed({ 'grpc-encoding': encoding }: IncomingHttpHeaders): boolean {
  return encoding !== undefined && encoding !== 'identity'
}

/** Deflate expands a byte to at most so many. */
const EXPANSION_MAX = 1032

/** For what is being expanded when its call ends early: nothing stops that. */
const EXPANSION_MS = 5_000

/**
 * Counts what a compressed request may come to: grpc-js expands it before anyone is asked who
 * calls. This listens before grpc-js does, which leaves alone what was refused.
 */
function watchCompressed({ stream, connection }: OpenStream, limits: GrpcLimits): void {
  const { usage } = connection
  let expandedBytes = 0
  stream.on('data', (chunk: Buffer) => {
    if (stream.closed) return
    const bytes = Math.min(expandedBytes + chunk.length * EXPANSION_MAX, limits.messageBytesMax)
    const fits = usage.hold(bytes - expandedBytes)
    expandedBytes = bytes
    if (!fits) connection.refuse(stream)
  })
  stream.once('close', () => {
    // Whoever got a message was let in, after the request was expanded.
    const answered = stream.sentHeaders !== undefined && !('grpc-status' in stream.sentHeaders)
    if (answered) usage.release(expandedBytes)
    else setTimeout(() => usage.release(expandedBytes), EXPANSION_MS).unref()
  })
}

/** Counts what comes of a request until it is complete. */
function watchBody(each: OpenStream, limits: GrpcLimits): void {
  const { stream, connection, traits } = each
  const bodyBytesMax = traits.open ? limits.openMessageBytesMax : Number.POSITIVE_INFINITY
  const release = (): void => {
    connection.usage.release(each.bodyBytes)
    each.bodyBytes = 0
  }
  stream.once('end', release).once('close', release)
  stream.on('data', (chunk: Buffer) => {
    connection.bodyReceived(chunk.length)
    if (stream.closed) return
    each.bodyBytes += chunk.length
    const fits = connection.usage.hold(chunk.length)
    if (!fits || each.bodyBytes > bodyBytesMax) connection.refuse(stream)
  })
}

function checkStream(each: OpenStream, nowMs: number, limits: GrpcLimits): void {
  const { stream, connection, traits, startedMs } = each
  if (stream.closed) return
  const ageMs = nowMs - startedMs
  if (traits.kind === 'reflection') {
    if (ageMs > limits.reflectionMs) stream.close(constants.NGHTTP2_CANCEL)
  } else if (!stream.readableEnded && ageMs > limits.requestMs) {
    connection.refuse(stream)
  } else if (traits.kind === 'unary' && stream.headersSent) {
    each.answeredMs ??= nowMs
    if (nowMs - each.answeredMs > limits.answerMs) stream.close(constants.NGHTTP2_CANCEL)
  }
}
