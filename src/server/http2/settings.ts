import {
  CODE,
  ConnectionError,
  protocolFault,
  SETTING,
  sizeFault,
  WINDOW_BYTES_MAX,
} from './protocol.ts'

/** Of the settings of a client, the one that we look at (RFC 9113, section 6.5.2). */
export interface ClientSettings {
  /** The last of them, where there are more. */
  readonly initialWindow: number | undefined
}

/** @throws ConnectionError for a value that is not allowed */
export function readSettings(bytes: Buffer, start: number, end: number): ClientSettings {
  if ((end - start) % 6 !== 0) throw sizeFault('a setting has six bytes')
  let initialWindow: number | undefined
  for (let at = start; at < end; at += 6) {
    const name = bytes.readUInt16BE(at)
    const value = bytes.readUInt32BE(at + 2)
    if (name === SETTING.enablePush && value > 1) throw protocolFault('push is on or off')
    if (name === SETTING.maxFrameSize && (value < 16_384 || value > 0xff_ffff)) {
      throw protocolFault('frames are of 2^14 to 2^24 - 1 bytes')
    }
    if (name !== SETTING.initialWindowSize) continue
    if (value > WINDOW_BYTES_MAX) {
      throw new ConnectionError(CODE.flowControlError, 'a window is wider than 2^31 - 1')
    }
    initialWindow = value
  }
  return { initialWindow }
}

/** The settings that a server begins with. */
export function encodeSettings(settings: readonly (readonly [name: number, value: number])[]) {
  const bytes = Buffer.alloc(settings.length * 6)
  let at = 0
  for (const [name, value] of settings) {
    at = bytes.writeUInt16BE(name, at)
    at = bytes.writeUInt32BE(value, at)
  }
  return bytes
}
