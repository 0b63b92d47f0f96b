import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { cut, lines, read } from './read-answer.ts'

const token = fc.stringMatching(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,20}$/)
const value = fc.stringMatching(/^[\x21-\x7e]([\t -~]{0,40}[\x21-\x7e])?$/)
const RESERVED = ['connection', 'keep-alive', 'retry-after', 'content-length', 'transfer-encoding']
const fields = fc.array(
  fc.tuple(token, value).filter(([name]) => !RESERVED.includes(name.toLowerCase())),
  { maxLength: 8 },
)
const content = fc.uint8Array({ maxLength: 6_000 }).map((bytes) => Buffer.from(bytes))

/** A valid answer of any framing, and what it says. */
const valid = fc
  .tuple(fc.integer({ min: 200, max: 599 }), fields, content, fc.boolean(), fc.array(fc.nat()))
  .map(([status, extra, body, chunked, places]) => {
    const framing = chunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${body.length}`
    const bare = status === 204 || status === 304
    const head = lines(
      `HTTP/1.1 ${status} Any`,
      ...extra.map(([name, text]) => `${name}: ${text}`),
      ...(bare ? [] : [framing]),
      '',
    )
    const chunks = cut(body, places).filter((chunk) => chunk.length > 0)
    const inChunks = chunks.map(
      (chunk) => `${chunk.length.toString(16)}\r\n${chunk.toString('latin1')}\r\n`,
    )
    const sent = chunked ? `${inChunks.join('')}0\r\n\r\n` : body.toString('latin1')
    const kept = bare ? '' : body.toString('latin1').slice(0, 4_096)
    return { bytes: Buffer.from(bare ? head : head + sent, 'latin1'), status, kept }
  })

describe('whatever comes', () => {
  test('an answer is the same however it is cut', () => {
    fc.assert(
      fc.property(
        valid,
        fc.array(fc.nat(), { maxLength: 30 }),
        ({ bytes, status, kept }, places) => {
          const expected = {
            over: true,
            status,
            body: kept,
            fault: '',
            keptMs: 4_000,
            retryAfter: undefined,
          }
          expect(read(bytes)).toEqual(expected)
          expect(read(...cut(bytes, places))).toEqual(expected)
        },
      ),
      { numRuns: 300 },
    )
  })

  test('a damaged answer is as good or bad however it is cut', () => {
    const damage = fc.tuple(
      fc.nat(),
      fc.constantFrom(...'\0\n\r\t :;,0159afHTx\x7f\xff'),
      fc.boolean(),
    )
    const answers = fc.tuple(valid, fc.array(damage, { minLength: 1, maxLength: 4 }))
    fc.assert(
      fc.property(
        answers,
        fc.array(fc.nat(), { maxLength: 30 }),
        ([{ bytes }, damages], places) => {
          let text = bytes.toString('latin1')
          for (const [place, letter, instead] of damages) {
            const at = place % text.length
            text = text.slice(0, at) + letter + text.slice(instead ? at + 1 : at)
          }
          const damaged = Buffer.from(text, 'latin1')
          const pieces = cut(damaged, places)
          const { keptMs, ...whole } = read(damaged)
          const { keptMs: cutKeptMs, ...inPieces } = read(...pieces)
          expect(inPieces).toEqual(whole)
          // What follows the answer may come in a piece of its own, which the connection sees.
          expect(cutKeptMs === keptMs || keptMs === 0).toBe(true)
        },
      ),
      { numRuns: 1_000 },
    )
  })

  test('bytes at random never throw, and an answer ends within its bounds', () => {
    const piece = fc.oneof(
      fc.uint8Array({ maxLength: 50 }).map((bytes) => Buffer.from(bytes).toString('latin1')),
      fc.constantFrom('HTTP/1.1 200 OK\r\n', 'HTTP/1.1 100 C\r\n\r\n', '\r\n', '\r', '\n', ': '),
      fc.constantFrom(
        'content-length: ',
        '5',
        'transfer-encoding: chunked',
        '0\r\n\r\n',
        'a: b\r\n',
      ),
    )
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => {
        const { status, fault, over } = read(...pieces)
        expect(status === undefined || fault === '').toBe(true)
        if (fault !== '') expect(over).toBe(true)
      }),
      { numRuns: 1_000 },
    )
  })
})
