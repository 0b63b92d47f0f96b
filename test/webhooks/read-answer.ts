import { AnswerReader } from '../../src/webhooks/http1/answer-reader.ts'

/** Lines that end with CR LF. */
export const lines = (...all: string[]) => `${all.join('\r\n')}\r\n`

/** What is known when all pieces were read, or the answer was over before. */
export function read(...pieces: (string | Buffer)[]) {
  const reader = new AnswerReader()
  let over = false
  for (const piece of pieces) {
    if (over) break
    over = reader.read(typeof piece === 'string' ? Buffer.from(piece, 'latin1') : piece)
  }
  return {
    over,
    status: reader.status,
    body: reader.body.toString('latin1'),
    fault: reader.fault,
    keptMs: reader.keptMs,
    retryAfter: reader.retryAfter,
  }
}

/** Pieces of it, cut at some of these places. */
export function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const ends = [...new Set(places.map((place) => place % (bytes.length + 1)))].sort((a, b) => a - b)
  return [...ends, bytes.length].map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end))
}

export const byByte = (text: string) =>
  Array.from(Buffer.from(text, 'latin1'), (byte) => Buffer.of(byte))
