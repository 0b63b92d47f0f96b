import type { Http2Connection } from './connection.ts'
import { FrameReader } from './frame-reader.ts'
import { HeaderBlocks } from './header-blocks.ts'
import type { HeaderList } from './hpack-decoder.ts'
import { RECEIVE_WINDOW_BYTES, SETTINGS_COST } from './limits.ts'
import {
  CODE,
  ConnectionError,
  FLAG,
  FRAME,
  protocolFault,
  sizeFault,
  unpadded,
  WINDOW_BYTES_MAX,
} from './protocol.ts'
import { areTrailers, readRequestHead } from './request-head.ts'
import { readSettings } from './settings.ts'
import type { Http2Stream } from './stream.ts'

/**
 * What the frames of a client mean for its connection (RFC 9113, sections 5 and 6). Faults of the
 * connection are thrown as ConnectionError; those of a stream reset it.
 */
export class Receiver {
  readonly #connection: Http2Connection
  readonly #reader: FrameReader
  readonly #blocks: HeaderBlocks
  #greeted = false
  #window: number = RECEIVE_WINDOW_BYTES.connection

  constructor(connection: Http2Connection) {
    this.#connection = connection
    this.#blocks = new HeaderBlocks((id, ended, fields) => this.#headersCame(id, ended, fields))
    this.#reader = new FrameReader((type, flags, id, bytes, start, end) =>
      this.#take(type, flags, id, bytes, start, end),
    )
  }

  /** Whether the client has begun as it has to: with the preface and its settings. */
  get greeted(): boolean {
    return this.#greeted
  }

  /** @throws ConnectionError */
  read(chunk: Buffer): void {
    this.#reader.read(chunk)
  }

  hasHeadersSince(ms: number): boolean {
    return this.#blocks.isOpenSince(ms)
  }

  #take(type: number, flags: number, id: number, bytes: Buffer, start: number, end: number): void {
    const connection = this.#connection
    // What else was in the chunk with a fault does not count any more.
    if (connection.ending) return
    if (!this.#greeted && type !== FRAME.settings) {
      throw protocolFault('it does not begin with SETTINGS')
    }
    const { openId } = this.#blocks
    if (openId !== undefined && (type !== FRAME.continuation || id !== openId)) {
      throw protocolFault('a block of headers is interrupted')
    }
    if (type === FRAME.data) this.#data(flags, id, bytes, start, end)
    else if (type === FRAME.headers) {
      this.#blocks.begin(flags, id, bytes, start, end, connection.nowMs)
    } else if (type === FRAME.continuation) this.#blocks.continue(flags, bytes, start, end)
    else if (type === FRAME.windowUpdate) this.#windowUpdate(id, bytes, start, end)
    else if (type === FRAME.rstStream) this.#rstStream(id, end - start)
    else if (type === FRAME.settings) this.#settings(flags, id, bytes, start, end)
    else if (type === FRAME.ping) this.#ping(flags, id, bytes, start, end)
    else if (type === FRAME.priority) this.#priority(id, end - start)
    else if (type === FRAME.goAway) this.#goAway(id, end - start)
    else if (type === FRAME.pushPromise) throw protocolFault('a client cannot push')
    else connection.spendIdleFrame()
  }

  #headersCame(id: number, ended: boolean, fields: HeaderList): void {
    const connection = this.#connection
    const stream = connection.streams.get(id)
    if (stream !== undefined) this.#trailers(stream, ended, fields)
    else if (id > connection.lastId) this.#request(id, ended, fields)
    else if (!connection.wasReset(id)) {
      throw new ConnectionError(CODE.streamClosed, 'HEADERS of a stream that is over')
    }
  }

  #request(id: number, ended: boolean, fields: HeaderList): void {
    const connection = this.#connection
    // The client was told which stream was the last.
    if (connection.draining) return
    connection.lastId = id
    if (fields === undefined) {
      connection.resetId(id, CODE.enhanceYourCalm)
      return
    }
    const head = readRequestHead(fields)
    if (head === undefined || (ended && head.contentLength > 0)) {
      connection.resetId(id, CODE.protocolError)
      return
    }
    const stream = connection.open(id, head, ended)
    if (ended) stream?.listener?.ended()
  }

  #trailers(stream: Http2Stream, ended: boolean, fields: HeaderList): void {
    if (stream.remoteEnded) this.#connection.reset(stream, CODE.streamClosed)
    else if (fields === undefined) this.#connection.reset(stream, CODE.enhanceYourCalm)
    else if (!ended || !areTrailers(fields)) this.#connection.reset(stream, CODE.protocolError)
    else this.#end(stream)
  }

  #data(flags: number, id: number, bytes: Buffer, start: number, end: number): void {
    if (id === 0) throw protocolFault('DATA of no stream')
    this.#receive(end - start)
    let at = start
    let until = end
    if ((flags & FLAG.padded) !== 0) {
      until = unpadded(bytes, start, end)
      at += 1
    }
    const connection = this.#connection
    const ended = (flags & FLAG.endStream) !== 0
    if (at === until && !ended) connection.spendIdleFrame()
    const stream = this.#find(id)
    if (stream === undefined) {
      // Begun after the client was told which stream was the last.
      if (id > connection.lastId) return
      if (connection.wasReset(id)) connection.spendIdleFrame()
      else connection.resetId(id, CODE.streamClosed)
      return
    }
    stream.receiveWindow -= end - start
    if (stream.remoteEnded) connection.reset(stream, CODE.streamClosed)
    else if (stream.receiveWindow < 0) connection.reset(stream, CODE.flowControlError)
    // What is complete in one frame is nothing that waits.
    else if (ended || connection.hold(stream, until - at)) {
      stream.receivedBytes += until - at
      if (until > at) stream.listener?.data(bytes, at, until)
      if (stream.closed) return
      if (ended) this.#end(stream)
      else this.#replenish(stream)
    }
  }

  /** Counts what came of all streams, also of those that are over. */
  #receive(length: number): void {
    this.#window -= length
    if (this.#window < 0) throw new ConnectionError(CODE.flowControlError, 'the window is full')
    const used = RECEIVE_WINDOW_BYTES.connection - this.#window
    if (used < RECEIVE_WINDOW_BYTES.connection / 2) return
    this.#window += used
    this.#connection.outbox.number(FRAME.windowUpdate, 0, used)
  }

  /** Gives a stream its room back when half of it is used. */
  #replenish(stream: Http2Stream): void {
    const used = RECEIVE_WINDOW_BYTES.stream - stream.receiveWindow
    if (used < RECEIVE_WINDOW_BYTES.stream / 2) return
    stream.receiveWindow += used
    this.#connection.outbox.number(FRAME.windowUpdate, stream.id, used)
  }

  #end(stream: Http2Stream): void {
    const { contentLength } = stream.head
    if (contentLength >= 0 && contentLength !== stream.receivedBytes) {
      this.#connection.reset(stream, CODE.protocolError)
      return
    }
    this.#connection.complete(stream)
    stream.listener?.ended()
  }

  #windowUpdate(id: number, bytes: Buffer, start: number, end: number): void {
    if (end - start !== 4) throw sizeFault('WINDOW_UPDATE has four bytes')
    const connection = this.#connection
    const increment = bytes.readUInt32BE(start) & WINDOW_BYTES_MAX
    connection.spendIdleFrame()
    if (id === 0) {
      if (increment === 0) throw protocolFault('a window is widened by nothing')
      connection.sender.widen(increment)
      return
    }
    const stream = this.#find(id)
    if (stream === undefined) return
    if (increment === 0) connection.reset(stream, CODE.protocolError)
    else if (!connection.sender.widenStream(stream, increment)) {
      connection.reset(stream, CODE.flowControlError)
    }
  }

  #rstStream(id: number, length: number): void {
    if (length !== 4) throw sizeFault('RST_STREAM has four bytes')
    const stream = this.#find(id)
    if (stream === undefined) this.#connection.spendIdleFrame()
    else this.#connection.resetByClient(stream)
  }

  #settings(flags: number, id: number, bytes: Buffer, start: number, end: number): void {
    if (id !== 0) throw protocolFault('SETTINGS of a stream')
    const connection = this.#connection
    if ((flags & FLAG.ack) !== 0) {
      if (end > start) throw sizeFault('an acknowledgement is empty')
      if (!this.#greeted) throw protocolFault('it does not begin with SETTINGS')
      connection.spendIdleFrame()
      return
    }
    const { initialWindow } = readSettings(bytes, start, end)
    if (this.#greeted) connection.spendIdleFrame(SETTINGS_COST)
    this.#greeted = true
    connection.outbox.frame(FRAME.settings, FLAG.ack, 0, bytes, start, start)
    if (initialWindow === undefined) return
    connection.sender.changeInitialWindow(initialWindow, connection.streams.values())
  }

  #ping(flags: number, id: number, bytes: Buffer, start: number, end: number): void {
    if (id !== 0) throw protocolFault('PING of a stream')
    if (end - start !== 8) throw sizeFault('PING has eight bytes')
    this.#connection.spendIdleFrame()
    if ((flags & FLAG.ack) !== 0) this.#connection.pingAnswered()
    else this.#connection.outbox.frame(FRAME.ping, FLAG.ack, 0, bytes, start, end)
  }

  #priority(id: number, length: number): void {
    if (id === 0) throw protocolFault('PRIORITY of no stream')
    if (length !== 5) throw sizeFault('PRIORITY has five bytes')
    this.#connection.spendIdleFrame()
  }

  #goAway(id: number, length: number): void {
    if (id !== 0) throw protocolFault('GOAWAY of a stream')
    if (length < 8) throw sizeFault('GOAWAY is too short')
    this.#connection.drain()
  }

  /** @throws ConnectionError when the stream never began */
  #find(id: number): Http2Stream | undefined {
    const stream = this.#connection.streams.get(id)
    if (stream !== undefined) return stream
    const { lastId, draining } = this.#connection
    if (id === 0 || (id & 1) === 0 || (id > lastId && !draining)) {
      throw protocolFault('a stream that never began')
    }
    return undefined
  }
}
