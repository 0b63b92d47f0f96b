import type { Socket } from 'node:net'
import { addressGroup } from '../../limits/address-group.ts'
import type { ClientIdentity } from '../client-certificate.ts'
import type { ConnectionHost } from './host.ts'
import { Keepalive } from './keepalive.ts'
import { HEADER_LIST_BYTES_MAX, LINGER, RECEIVE_WINDOW_BYTES, WAITING_BYTES_MAX } from './limits.ts'
import { Outbox } from './outbox.ts'
import { Patience } from './patience.ts'
import { CODE, ConnectionError, FRAME, SETTING, WINDOW_BYTES } from './protocol.ts'
import type { Share } from './quota.ts'
import { Receiver } from './receiver.ts'
import type { RequestHead } from './request-head.ts'
import { Sender } from './sender.ts'
import { encodeSettings } from './settings.ts'
import { Http2Stream } from './stream.ts'

/** One connection of a client: its streams, and how it lives and ends. */
export class Http2Connection {
  readonly address: string
  /** Who the certificate says that the client is, where it had to show one. */
  readonly identity: ClientIdentity | undefined
  readonly streams = new Map<number, Http2Stream>()
  readonly sender: Sender
  readonly outbox: Outbox
  /** The highest stream that was begun. */
  lastId = 0
  /** When the chunk came that is being read, in milliseconds of `performance.now()`. */
  nowMs = performance.now()
  readonly #socket: Socket
  readonly #host: ConnectionHost
  readonly #receiver: Receiver
  readonly #share: Share
  readonly #openedMs = this.nowMs
  readonly #patience = new Patience(this.nowMs)
  readonly #keepalive: Keepalive
  #state: 'open' | 'draining' | 'ending' = 'open'
  #endingMs = 0
  /** What is read over after the end: without bound where the client did nothing wrong. */
  #discardBytesMax = Number.POSITIVE_INFINITY
  #discardedBytes = 0
  #usedMs = this.nowMs

  constructor(socket: Socket, identity: ClientIdentity | undefined, host: ConnectionHost) {
    this.#socket = socket
    this.#host = host
    this.identity = identity
    this.address = socket.remoteAddress ?? ''
    this.#share = host.quota.enter(addressGroup(this.address))
    const schedule = (outbox: Outbox) => host.schedule(outbox)
    this.outbox = new Outbox(socket, schedule, () => this.#resume())
    this.sender = new Sender(this.outbox, {
      ended: (stream) => this.#ended(stream),
      progressed: (frames) => this.#patience.sent(frames),
    })
    const { keepaliveMs, keepaliveTimeoutMs } = host.limits
    this.#keepalive = new Keepalive(keepaliveMs, keepaliveTimeoutMs, this.nowMs)
    this.#receiver = new Receiver(this)
    socket.on('data', (chunk: Buffer) => this.#read(chunk))
    socket.on('error', () => undefined)
    socket.once('close', () => this.#lost())
    this.#greet()
  }

  /** Whether new streams are not looked at any more. */
  get draining(): boolean {
    return this.#state !== 'open'
  }

  /** Whether nothing that comes counts any more. */
  get ending(): boolean {
    return this.#state === 'ending'
  }

  /** @returns undefined when the stream was refused */
  open(id: number, head: RequestHead, ended: boolean): Http2Stream | undefined {
    const windows = { send: this.sender.initialWindow, receive: RECEIVE_WINDOW_BYTES.stream }
    const stream = new Http2Stream(id, head, ended, windows, this.nowMs)
    this.streams.set(id, stream)
    const { limits } = this.#host
    if (!this.#share.addStream()) this.refuse(stream)
    else if (this.streams.size > limits.streamsPerConnectionMax) {
      this.reset(stream, CODE.refusedStream)
    } else stream.listener = this.#host.open(stream, this)
    return stream.closed ? undefined : stream
  }

  /** Counts bytes of a request that is not complete. @returns whether it may go on */
  hold(stream: Http2Stream, bytes: number): boolean {
    stream.pendingBytes += bytes
    if (this.#share.addPending(bytes)) return true
    this.refuse(stream)
    return false
  }

  /** The request is complete: what it holds is the call's from now on. */
  complete(stream: Http2Stream): void {
    stream.remoteEnded = true
    if (stream.pendingBytes === 0) return
    this.#share.removePending(stream.pendingBytes)
    stream.pendingBytes = 0
  }

  /** Ends a stream that is over a limit; whoever goes on so loses the connection. */
  refuse(stream: Http2Stream): void {
    this.reset(stream, CODE.enhanceYourCalm)
    if (!this.#patience.refuse()) this.fail(CODE.enhanceYourCalm)
  }

  /** Ends a stream before its time. */
  reset(stream: Http2Stream, code: number): void {
    if (stream.closed) return
    this.resetId(stream.id, code)
    this.#remove(stream)
  }

  /** The same for a stream that we do not have. */
  resetId(id: number, code: number): void {
    if (this.#state === 'ending') return
    this.outbox.number(FRAME.rstStream, id, code)
    this.#patience.rememberReset(id)
    this.#spendReset()
  }

  /** The client ended a stream before its time. */
  resetByClient(stream: Http2Stream): void {
    this.#remove(stream)
    this.#spendReset()
  }

  wasReset(id: number): boolean {
    return this.#patience.wasReset(id)
  }

  /** Counts a frame that brings nothing. @throws ConnectionError when there are too many */
  spendIdleFrame(cost = 1): void {
    if (this.#patience.spendIdleFrame(cost, this.nowMs)) return
    throw new ConnectionError(CODE.enhanceYourCalm, 'too many frames that bring nothing')
  }

  pingAnswered(): void {
    this.#keepalive.answered()
  }

  /** An answer that its client does not take is held up to a bound. */
  boundWaiting(stream: Http2Stream): void {
    if (this.sender.waitingBytes > WAITING_BYTES_MAX && !stream.closed) this.refuse(stream)
  }

  /** Takes no new streams, and ends when those under way have. */
  drain(): void {
    if (this.#state !== 'open') return
    if (!this.#receiver.greeted) {
      this.#socket.destroy()
      return
    }
    this.#state = 'draining'
    this.#goAway(CODE.noError)
    this.#endIfDone()
  }

  /** Ends at once, for a fault of the client's. */
  fail(code: number): void {
    if (this.#state === 'ending') return
    this.#discardBytesMax = LINGER.bytes
    this.#goAway(code)
    this.#end()
    for (const stream of [...this.streams.values()]) this.#remove(stream)
  }

  /** Looks after what has taken too long. */
  tick(nowMs: number): void {
    this.nowMs = nowMs
    const { greetingMs, requestMs, keepaliveTimeoutMs, idleMs } = this.#host.limits
    if (this.#state === 'ending') {
      // What was answered has some time to reach its client; then nothing is waited for.
      const lingerMs = this.#socket.writableLength > 0 ? keepaliveTimeoutMs : LINGER.ms
      if (nowMs - this.#endingMs > lingerMs) this.#socket.destroy()
      return
    }
    if (!this.#receiver.greeted) {
      if (nowMs - this.#openedMs > greetingMs) this.#socket.destroy()
      return
    }
    if (this.#receiver.hasHeadersSince(nowMs - requestMs)) {
      this.fail(CODE.enhanceYourCalm)
      return
    }
    // In the order they began in.
    for (const stream of this.streams.values()) {
      if (stream.startedMs > nowMs - requestMs) break
      if (!stream.remoteEnded) this.refuse(stream)
    }
    if (this.streams.size === 0 && nowMs - this.#usedMs > idleMs) this.drain()
    this.#keepAlive(nowMs)
  }

  destroy(): void {
    this.#socket.destroy()
  }

  #keepAlive(nowMs: number): void {
    const due = this.#keepalive.tick(nowMs)
    if (due === 'give up') this.#socket.destroy()
    else if (due === 'ask') this.outbox.frame(FRAME.ping, 0, 0, Buffer.alloc(8))
  }

  #greet(): void {
    const settings = encodeSettings([
      [SETTING.maxConcurrentStreams, this.#host.limits.streamsPerConnectionMax],
      [SETTING.initialWindowSize, RECEIVE_WINDOW_BYTES.stream],
      [SETTING.maxHeaderListSize, HEADER_LIST_BYTES_MAX],
    ])
    this.outbox.frame(FRAME.settings, 0, 0, settings)
    this.outbox.number(FRAME.windowUpdate, 0, RECEIVE_WINDOW_BYTES.connection - WINDOW_BYTES)
  }

  /** Nothing is thrown out of here: it would end the process. */
  #read(chunk: Buffer): void {
    if (this.#state === 'ending') {
      this.#discardedBytes += chunk.length
      if (this.#discardedBytes > this.#discardBytesMax) this.#socket.destroy()
      return
    }
    this.nowMs = performance.now()
    try {
      this.#receiver.read(chunk)
    } catch (error) {
      if (!(error instanceof ConnectionError)) this.#host.failed(error)
      this.fail(error instanceof ConnectionError ? error.code : CODE.internalError)
    }
  }

  #resume(): void {
    if (this.#state !== 'ending') this.sender.resume()
  }

  #ended(stream: Http2Stream): void {
    stream.localEnded = true
    if (!stream.remoteEnded) {
      // Whoever has the answer need not send the rest of the request (RFC 9113, section 8.1).
      this.outbox.number(FRAME.rstStream, stream.id, CODE.noError)
      this.#patience.rememberReset(stream.id)
    }
    this.#remove(stream)
  }

  #remove(stream: Http2Stream): void {
    if (stream.closed) return
    stream.closed = true
    this.streams.delete(stream.id)
    if (!stream.localEnded || stream.waitingBytes > 0) this.sender.forget(stream)
    this.complete(stream)
    this.#share.removeStream()
    this.#usedMs = this.nowMs
    stream.listener?.closed()
    if (this.#state === 'draining') this.#endIfDone()
  }

  #spendReset(): void {
    if (!this.#patience.spendReset(this.nowMs)) this.fail(CODE.enhanceYourCalm)
  }

  #goAway(code: number): void {
    const payload = Buffer.alloc(8)
    payload.writeUInt32BE(this.lastId, 0)
    payload.writeUInt32BE(code, 4)
    this.outbox.frame(FRAME.goAway, 0, 0, payload)
  }

  #endIfDone(): void {
    if (this.streams.size === 0) this.#end()
  }

  #end(): void {
    this.#state = 'ending'
    this.#endingMs = performance.now()
    this.outbox.flush()
    this.#socket.end()
  }

  #lost(): void {
    this.#state = 'ending'
    for (const stream of [...this.streams.values()]) this.#remove(stream)
    this.#share.leave()
    this.#host.closed(this)
  }
}
