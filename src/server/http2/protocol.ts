/** What a client of HTTP/2 says first (RFC 9113, section 3.4). */
export const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1')

export const FRAME_HEAD_BYTES = 9

/** The largest payload of a frame, either way: we never allow more, and never need more. */
export const FRAME_BYTES_MAX = 16_384

/** Kinds of frames (RFC 9113, section 6). */
export const FRAME = {
  data: 0,
  headers: 1,
  priority: 2,
  rstStream: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goAway: 7,
  windowUpdate: 8,
  continuation: 9,
} as const

export const FLAG = { endStream: 1, ack: 1, endHeaders: 4, padded: 8, priority: 32 } as const

/** Parameters of SETTINGS (RFC 9113, section 6.5.2). */
export const SETTING = {
  headerTableSize: 1,
  enablePush: 2,
  maxConcurrentStreams: 3,
  initialWindowSize: 4,
  maxFrameSize: 5,
  maxHeaderListSize: 6,
} as const

/** Error codes (RFC 9113, section 7). */
export const CODE = {
  noError: 0,
  protocolError: 1,
  internalError: 2,
  flowControlError: 3,
  streamClosed: 5,
  frameSizeError: 6,
  refusedStream: 7,
  cancel: 8,
  compressionError: 9,
  enhanceYourCalm: 11,
} as const

/** The windows that everybody begins with (RFC 9113, section 6.9.2). */
export const WINDOW_BYTES = 65_535

export const WINDOW_BYTES_MAX = 0x7fff_ffff

/** A fault of the peer's that ends its connection. */
export class ConnectionError extends Error {
  readonly code: number

  constructor(code: number, text: string) {
    super(text)
    this.code = code
  }
}

export function protocolFault(text: string): ConnectionError {
  return new ConnectionError(CODE.protocolError, text)
}

/** A frame is shorter or longer than its kind can be. */
export function sizeFault(text: string): ConnectionError {
  return new ConnectionError(CODE.frameSizeError, text)
}

/** Where a padded payload ends before its padding (section 6.1). @throws ConnectionError */
export function unpadded(bytes: Buffer, start: number, end: number): number {
  if (start === end) throw sizeFault('the length of the padding is missing')
  const until = end - (bytes[start] as number)
  if (until <= start) throw protocolFault('there is more padding than payload')
  return until
}
