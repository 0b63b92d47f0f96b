import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from 'node:http2'
import { boundTimeouts } from '../invokers.ts'
import type { GrpcConnection, GrpcConnections, GrpcLimits } from './connections.ts'

/** The header with the request id, which every response has. */
export const REQUEST_ID = 'x-request-id'

/** The properties of a method that are needed before grpc-js handles the call. */
export interface MethodTraits {
  readonly kind: 'unary' | 'stream' | 'reflection'
  /** Whether the method needs no credential. */
  readonly open: boolean
}

export interface StreamWatch {
  /** Resets the stream whose response has this request id, if it is still open. */
  reset(requestId: string): void
  stop(): void
}

/** Published by Node for each stream of each server, before the server's `stream` event. */
const CREATED = 'http2.server.stream.created'

interface Created {
  readonly stream: ServerHttp2Stream
  readonly headers: IncomingHttpHeaders
}

/** The headers that grpc-js quotes in error texts, and the most characters that it may quote. */
const REPEATED = [':path', 'grpc-timeout', 'grpc-encoding']
const REPEATED_CHARACTERS_MAX = 200

const CHECK_MS = 1_000

/** Refusing large headers counts more: they are in memory before we see them, and HPACK makes them cheap to send. */
const LARGE_HEADERS_WEIGHT = 20

/** The traits of an unknown path, which gets UNIMPLEMENTED at once. */
const UNKNOWN: MethodTraits = { kind: 'unary', open: true }

interface OpenStream {
  readonly stream: ServerHttp2Stream
  readonly connection: GrpcConnection
  readonly traits: MethodTraits
  readonly startedMs: number
  bodyBytes: number
  /** When the response was first seen to wait for the client. */
  respondedMs: number | undefined
}

/**
 * Bounds the memory that clients can make the server hold, whatever their flow-control windows are: streams, headers,
 * incomplete requests, and unread responses. grpc-js reports a call only when its request is complete, so this watches
 * the HTTP/2 streams below grpc-js.
 *
 * @param traits the traits of each method, by path
 */
export function watchStreams(
  connections: GrpcConnections,
  traits: ReadonlyMap<string, MethodTraits>,
  limits: GrpcLimits,
): StreamWatch {
  const open = new Set<OpenStream>()
  const watchLater = createBodyWatch(limits)
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
      respondedMs: undefined,
    }
    open.add(each)
    stream.once('close', () => {
      open.delete(each)
      usage.removeStream()
      usage.release(headerBytes)
    })
    connection.streamOpened()
    const fits = usage.addStream()
    // Headers are counted but not refused by this limit: large requests of one caller must not block others.
    usage.hold(headerBytes)
    if (isCompressed(headers)) watchCompressed(each, limits)
    // Deferred until grpc-js has the stream, because grpc-js cannot handle a stream that is already closed.
    if (headerBytes > limits.headerBytesMax)
      queueMicrotask(() => connection.refuse(stream, LARGE_HEADERS_WEIGHT))
    else if (!fits) queueMicrotask(() => connection.refuse(stream))
    else watchLater(each)
  }
  const check = (): void => {
    const nowMs = performance.now()
    for (const each of open) checkStream(each, nowMs, limits)
    connections.check(nowMs)
  }
  const { requestMs, responseMs, reflectionMs, greetingMs } = limits
  const everyMs = Math.min(CHECK_MS, requestMs, responseMs, reflectionMs, greetingMs)
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

/** Shortens headers that grpc-js quotes: a few bytes of a compressed header would otherwise cause a large error text. */
function adjust(headers: IncomingHttpHeaders): void {
  for (const name of REPEATED) {
    const value = headers[name]
    if (typeof value === 'string' && value.length > REPEATED_CHARACTERS_MAX) {
      headers[name] = value.slice(0, REPEATED_CHARACTERS_MAX)
    }
  }
  // grpc-js treats a deadline of more than 24 days as already passed.
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

/** The maximum expansion of deflate, in bytes per byte. */
const EXPANSION_MAX = 1032

/** How long the expansion of a message can continue after its call has ended; it cannot be stopped. */
const EXPANSION_MS = 5_000

/**
 * Counts the largest size to which a compressed request can expand, because grpc-js expands it before the caller is
 * authenticated. It handles the stream before grpc-js, which ignores refused streams.
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
    // A response with a message means that the request was expanded and the caller accepted.
    const answered = stream.sentHeaders !== undefined && !('grpc-status' in stream.sentHeaders)
    if (answered) usage.release(expandedBytes)
    else setTimeout(() => usage.release(expandedBytes), EXPANSION_MS).unref()
  })
}

/** Watches the bodies of the few requests that are not complete within the turn of the event loop in which they began. */
function createBodyWatch(limits: GrpcLimits): (each: OpenStream) => void {
  let fresh: OpenStream[] = []
  const watchFresh = (): void => {
    const turn = fresh
    fresh = []
    for (const each of turn) {
      const { stream } = each
      if (!stream.readableEnded && !stream.closed) watchBody(each, limits)
    }
  }
  return (each) => {
    if (fresh.push(each) === 1) setImmediate(watchFresh)
  }
}

/** Counts the bytes of a request until it is complete. */
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
    each.respondedMs ??= nowMs
    if (nowMs - each.respondedMs > limits.responseMs) stream.close(constants.NGHTTP2_CANCEL)
  }
}
