const TAB = 0x09
const LF = 0x0a
const CR = 0x0d
const DELETE = 0x7f

/** The line goes on beyond the bytes that came. */
export const INCOMPLETE = -1
/** A control character, or an end that is not CR LF. */
export const INVALID = -2
/** The line is longer than there is room for. */
export const TOO_LONG = -3

/** What may be in a line: HTAB, SP, VCHAR and obs-text of RFC 9110, 5.5. */
const TEXT = tableOf((byte) => byte === TAB || (byte >= 0x20 && byte !== DELETE))

/** What names are made of: tchar of RFC 9110, 5.6.2. */
const TOKEN = tableOf((byte) => /[!#$%&'*+.^_`|~0-9A-Za-z-]/.test(String.fromCharCode(byte)))

/**
 * Finds where a line ends.
 *
 * @param scanned where to begin; what is before it was looked at
 * @param roomEnd where the line with its CR LF must end
 * @returns where its CR is, or one of the three above
 */
export function lineEnd(bytes: Buffer, scanned: number, roomEnd: number): number {
  const stop = Math.min(bytes.length, roomEnd)
  let at = scanned
  while (at < stop && TEXT[bytes[at] ?? 0] === 1) at += 1
  if (at < stop && bytes[at] !== CR) return INVALID
  if (at + 1 < stop) return bytes[at + 1] === LF ? at : INVALID
  return stop === roomEnd ? TOO_LONG : INCOMPLETE
}

/** @returns where the name that begins at `from` ends */
export function tokenEnd(bytes: Buffer, from: number): number {
  let at = from
  while (at < bytes.length && TOKEN[bytes[at] ?? 0] === 1) at += 1
  return at
}

/** @param name in lower case. @returns whether it is in the bytes, in whatever case */
export function isName(bytes: Buffer, at: number, name: string): boolean {
  for (let i = 0; i < name.length; i++) {
    // Among the bytes of a name, this bit is what tells a small letter from a large one.
    if (((bytes[at + i] ?? 0) | 0x20) !== name.charCodeAt(i)) return false
  }
  return true
}

/** SP or HTAB. */
export function isBlank(byte: number | undefined): boolean {
  return byte === 0x20 || byte === TAB
}

function tableOf(has: (byte: number) => boolean): Uint8Array {
  return Uint8Array.from({ length: 256 }, (_, byte) => (has(byte) ? 1 : 0))
}
