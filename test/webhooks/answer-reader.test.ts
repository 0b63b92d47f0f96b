import { describe, expect, test } from 'vitest'
import { byByte, lines, read } from './read-answer.ts'

const NOT_HTTP = 'the answer is not HTTP'
const TOO_LARGE = 'the headers of the answer are too large'

describe('an answer is read', () => {
  test.each<[what: string, answer: string, body: string]>([
    ['without a reason', lines('HTTP/1.1 200 ', 'content-length: 0', ''), ''],
    ['without the space before it', lines('HTTP/1.1 200', 'content-length: 0', ''), ''],
    [
      'with a reason of other letters',
      lines('HTTP/1.1 200 \xc9t\xe9\t!', 'content-length: 0', ''),
      '',
    ],
    ['with a length', `${lines('HTTP/1.1 200 OK', 'Content-Length: 2', '')}ok`, 'ok'],
    [
      'with a length said twice',
      `${lines('HTTP/1.1 200 OK', 'a:b', 'content-LENGTH:2 ', 'Content-Length: 2', '')}ok`,
      'ok',
    ],
    [
      'in chunks',
      `${lines('HTTP/1.1 200 OK', 'Transfer-Encoding: chunked', '')}2\r\nok\r\nA;x="y"\r\n0123456789\r\n0\r\n\r\n`,
      'ok0123456789',
    ],
    [
      'in chunks of a coding',
      `${lines('HTTP/1.1 200 OK', 'transfer-encoding: gzip', 'transfer-encoding:Chunked', '')}001 ;x\r\no\r\n000\r\n\r\n`,
      'o',
    ],
    [
      'with trailers',
      `${lines('HTTP/1.1 200 OK', 'transfer-encoding: chunked', '')}1\r\no\r\n0\r\nx-sum: 1\r\nContent-Length: 9\r\n\r\n`,
      'o',
    ],
    ['with an empty value', lines('HTTP/1.1 200 OK', 'x:', 'content-length: 0', ''), ''],
    [
      'after informational ones',
      `${lines('HTTP/1.1 100 Continue', '')}${lines('HTTP/1.1 103 Hints', 'connection: close', 'content-length: 7', '')}${lines('HTTP/1.1 200 OK', 'content-length: 1', '')}x`,
      'x',
    ],
  ])('%s', (_, answer, body) => {
    const expected = {
      over: true,
      status: 200,
      body,
      fault: '',
      keptMs: 4_000,
      retryAfter: undefined,
    }
    expect(read(answer)).toEqual(expected)
    expect(read(...byByte(answer))).toEqual(expected)
  })

  test.each([204, 304])('of %d without a body', (status) => {
    expect(read(lines(`HTTP/1.1 ${status} No`, 'x: y', ''))).toMatchObject({
      over: true,
      status,
      keptMs: 4_000,
    })
  })

  test('until the connection is closed, where nothing says how long it is', () => {
    for (const header of ['x: y', 'transfer-encoding: gzip']) {
      const answer = `${lines('HTTP/1.1 200 OK', header, '')}some`
      expect(read(answer, ' more')).toMatchObject({
        over: false,
        status: 200,
        body: 'some more',
        keptMs: 0,
      })
    }
  })

  test('and counts as soon as its head is whole', () => {
    const head = lines('HTTP/1.1 503 No', 'retry-after:  120\t', 'content-length: 5', '')
    expect(read(head.slice(0, -1))).toMatchObject({ status: undefined, retryAfter: undefined })
    expect(read(head)).toMatchObject({ over: false, status: 503, retryAfter: '120' })
  })

  test('to 4 KiB that are kept and 64 KiB that are read', () => {
    const head = lines('HTTP/1.1 200 OK', `content-length: ${65_536}`, '')
    const whole = read(head, 'x'.repeat(60_000), 'y'.repeat(5_536))
    expect(whole).toMatchObject({ over: true, body: 'x'.repeat(4_096), keptMs: 4_000 })
    const longer = read(head.replace('65536', '65537'), 'x'.repeat(65_536))
    expect(longer).toMatchObject({ over: true, status: 200, body: 'x'.repeat(4_096), keptMs: 0 })
    const chunked = lines('HTTP/1.1 200 OK', 'transfer-encoding: chunked', '')
    const padded = Array<string>(70).fill(`1;${'x'.repeat(1_000)}\r\na\r\n`)
    const ended = '0\r\n\r\n'
    expect(read(chunked, ...padded, ended)).toMatchObject({
      over: true,
      status: 200,
      body: 'a'.repeat(65),
      keptMs: 0,
    })
    expect(read(chunked, ...padded.slice(0, 60), ended)).toMatchObject({ keptMs: 4_000 })
    expect(read(chunked, `1;${'x'.repeat(1_024)}`)).toMatchObject({ over: true, status: 200 })
    const trailers = Array<string>(7_000).fill('x: abcdef\r\n')
    expect(read(chunked, '0\r\n', ...trailers)).toMatchObject({ over: true, keptMs: 0 })
  })

  test('with Retry-After, if there is one', () => {
    const two = lines(
      'HTTP/1.1 503 No',
      'retry-after: 1',
      'Retry-After: 2',
      'content-length: 0',
      '',
    )
    expect(read(two).retryAfter).toBeUndefined()
    const date = 'Wed, 21 Oct 2026 07:28:00 GMT'
    expect(read(lines('HTTP/1.1 503 No', `RETRY-AFTER:${date}`, '')).retryAfter).toBe(date)
  })
})

describe('an answer is refused', () => {
  const ok = 'HTTP/1.1 200 OK'
  test.each<[what: string, answer: string]>([
    ['not HTTP', 'SSH-2.0-OpenSSH_9.6\r\n'],
    ['not HTTP from the first byte', '\x15\x03\x01'],
    ['begun with an empty line', lines('', ok, '')],
    ['begun with a space', lines(` ${ok}`, '')],
    ['of HTTP/2', lines('HTTP/2.0 200 OK', '')],
    ['of HTTP in small letters', lines('http/1.1 200 OK', '')],
    ['of a version of two digits', lines('HTTP/1.10 200 OK', '')],
    ['without a status', lines('HTTP/1.1', '')],
    ['with a short status', lines('HTTP/1.1 20', '')],
    ['with a long status', lines('HTTP/1.1 2000 OK', '')],
    ['with a status of letters', lines('HTTP/1.1 2x0 OK', '')],
    ['with a status below 100', lines('HTTP/1.1 099 OK', '')],
    ['with two spaces before the status', lines('HTTP/1.1  200 OK', '')],
    ['with a control character in the reason', lines('HTTP/1.1 200 O\x00K', '')],
    ['with a bare LF after the status', `${ok}\ncontent-length: 0\r\n\r\n`],
    ['with a bare LF after a header', `${ok}\r\ncontent-length: 0\n\r\n`],
    ['with a bare LF at the end', `${ok}\r\ncontent-length: 0\r\n\n`],
    ['with a bare CR', `${ok}\r\nx: a\rb\r\n\r\n`],
    ['with a folded header', lines(ok, 'x: a', ' b', '')],
    ['with a space before the colon', lines(ok, 'content-length : 0', '')],
    ['with a header without a name', lines(ok, ': a', '')],
    ['with a header without a colon', lines(ok, 'abc', '')],
    ['with a space in a name', lines(ok, 'a b: c', '')],
    ['with a letter that is not ASCII in a name', lines(ok, '\xe9: c', '')],
    ['with NUL in a value', lines(ok, 'x: a\0b', '')],
    ['with DEL in a value', lines(ok, 'x: a\x7fb', '')],
    ['with two lengths', lines(ok, 'content-length: 1', 'content-length: 2', '')],
    ['with a list of lengths', lines(ok, 'content-length: 1, 1', '')],
    ['without a number as length', lines(ok, 'content-length:', '')],
    ['with a negative length', lines(ok, 'content-length: -1', '')],
    ['with a signed length', lines(ok, 'content-length: +1', '')],
    ['with a length in hexadecimal', lines(ok, 'content-length: 0x1', '')],
    ['with a length beyond numbers', lines(ok, `content-length: ${'9'.repeat(16)}`, '')],
    ['with a length and chunks', lines(ok, 'content-length: 1', 'transfer-encoding: chunked', '')],
    ['with chunks and a length', lines(ok, 'transfer-encoding: chunked', 'content-length: 1', '')],
    ['with chunks that are not last', lines(ok, 'transfer-encoding: chunked, gzip', '')],
    ['with chunks twice', lines(ok, 'transfer-encoding: chunked, chunked', '')],
    ['to switch to something else', lines('HTTP/1.1 101 Switching', 'upgrade: x', '')],
    ['after very many informational ones', lines('HTTP/1.1 102 Wait', '').repeat(17)],
  ])('%s', (_, answer) => {
    const expected = {
      over: true,
      status: undefined,
      body: '',
      fault: NOT_HTTP,
      keptMs: 0,
      retryAfter: undefined,
    }
    expect(read(answer)).toEqual(expected)
    expect(read(...byByte(answer))).toEqual(expected)
  })

  test('when its head takes more than 16 KiB, in one line or many, or with others before it', () => {
    const room = 16_384 - lines('HTTP/1.1 200 OK', 'x: ', 'content-length: 0', '').length
    const of = (length: number) =>
      lines('HTTP/1.1 200 OK', `x: ${'y'.repeat(length)}`, 'content-length: 0', '')
    expect(read(of(room))).toMatchObject({ over: true, status: 200 })
    expect(read(...byByte(of(room)))).toMatchObject({ over: true, status: 200 })
    const refused = { over: true, status: undefined, fault: TOO_LARGE, keptMs: 0 }
    expect(read(of(room + 1))).toMatchObject(refused)
    expect(read(...byByte(of(room + 1)))).toMatchObject(refused)
    expect(read(lines('HTTP/1.1 200 OK'), ...Array(4_000).fill('x: y\r\n'))).toMatchObject(refused)
    const early = lines('HTTP/1.1 103 Hints', `x: ${'y'.repeat(9_000)}`, '')
    expect(read(early)).toMatchObject({ over: false, fault: '' })
    expect(read(early, early)).toMatchObject(refused)
  })
})

describe('a connection is used again', () => {
  const answer = (...headers: string[]) =>
    lines('HTTP/1.1 200 OK', 'content-length: 0', ...headers, '')
  test.each<[what: string, answer: string, keptMs: number]>([
    ['for 4 s', answer(), 4_000],
    ['for 4 s where it says only that', answer('connection: keep-alive'), 4_000],
    ['for 2 s less than the receiver says', answer('Keep-Alive: timeout=5, max=100'), 3_000],
    ['for 10 minutes at most', answer('keep-alive: timeout=99999999999999999999999999'), 600_000],
    ['not when it is closed too soon', answer('keep-alive: timeout=2'), 0],
    ['not when it is closed', answer('Connection: Close'), 0],
    [
      'not when it is closed among others',
      answer('connection: x, keep-alive', 'connection:y ,close '),
      0,
    ],
    ['though an option sounds alike', answer('connection: closed, close-not'), 4_000],
    [
      'not with HTTP/1.0',
      lines('HTTP/1.0 200 OK', 'content-length: 0', 'connection: keep-alive', ''),
      0,
    ],
    ['not after more than the answer', `${answer()}H`, 0],
    ['not after a second answer', answer().repeat(2), 0],
    [
      'not after more than the chunks',
      `${lines('HTTP/1.1 200 OK', 'transfer-encoding: chunked', '')}0\r\n\r\n\r\n`,
      0,
    ],
    ['not after 204 with a length', lines('HTTP/1.1 204 No', 'content-length: 5', ''), 0],
    ['not after 304 in chunks', lines('HTTP/1.1 304 No', 'transfer-encoding: chunked', ''), 0],
    [
      'after 204 with a length of nothing',
      lines('HTTP/1.1 204 No', 'content-length: 0', ''),
      4_000,
    ],
  ])('%s', (_, text, keptMs) => {
    expect(read(text)).toMatchObject({ over: true, fault: '', keptMs })
  })

  test.each([
    ['a size that is none', 'x\r\n'],
    ['no size', '\r\n'],
    ['a negative size', '-1\r\n'],
    ['a size with 0x', '0x1\r\n'],
    ['a size beyond numbers', `${'f'.repeat(13)}\r\n`],
    ['a space after the size', '1 \r\n'],
    ['a bare LF after the size', '1\na\r\n0\r\n\r\n'],
    ['a bare LF in an extension', '1;a\n\r\n'],
    ['more than the size', '1\r\nab\r\n'],
    ['a bare LF after it', '1\r\na\n0\r\n\r\n'],
    ['a trailer that is none', '0\r\nabc\r\n\r\n'],
    ['a folded trailer', '0\r\na: b\r\n c\r\n\r\n'],
  ])('never after a chunk with %s, though the status counts', (_, chunk) => {
    const head = lines('HTTP/1.1 200 OK', 'transfer-encoding: chunked', '')
    expect(read(head + chunk)).toMatchObject({ over: true, status: 200, fault: '', keptMs: 0 })
    expect(read(head, ...byByte(chunk))).toMatchObject({
      over: true,
      status: 200,
      fault: '',
      keptMs: 0,
    })
  })
})
