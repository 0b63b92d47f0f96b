import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { useSharedService } from '../../support/service.ts'
import { asJson, exchange, GENERATE, golden, PATHS, send } from './rest.ts'

const service = useSharedService()

const TOO_LARGE =
  '{"status":false,"message":"The body is larger than 64 KiB","code":"payload_too_large","request_id":"*"}'

/** A JSON object of a length in bytes. */
function objectOf(bytes: number): string {
  const frame = '{"session_id":"1","x":""}'
  return frame.replace('""', `"${'y'.repeat(bytes - frame.length)}"`)
}

describe('413 payload_too_large', () => {
  test('64 KiB are read, on every path', async () => {
    const { key } = await service.business()
    for (const path of PATHS) {
      const answer = await send(service.httpUrl, {
        path,
        headers: asJson(key),
        body: objectOf(65_536),
      })
      expect([200, 404, 422]).toContain(answer.status)
    }
  })

  test('one byte more is not, on every path, with the key and without', async () => {
    const { key } = await service.business()
    for (const path of PATHS) {
      for (const headers of [asJson(key), asJson()]) {
        const answer = await send(service.httpUrl, { path, headers, body: objectOf(65_537) })
        expect([answer.status, golden(answer.text)]).toEqual([413, TOO_LARGE])
        expect(answer.headers['x-request-id']).toMatch(/^req_/)
      }
    }
  })

  test('the bound counts bytes, not characters', async () => {
    const { key } = await service.business()
    const body = JSON.stringify({ session_id: '1', x: 'é'.repeat(40_000) })
    const answer = await send(service.httpUrl, { headers: asJson(key), body })
    expect([answer.status, golden(answer.text)]).toEqual([413, TOO_LARGE])
  })

  test('a body in chunks has the same bound', async () => {
    const { key } = await service.business()
    const chunks = (bytes: number) => objectOf(bytes).match(/.{1,10000}/gs) ?? []
    const read = await send(service.httpUrl, { headers: asJson(key), body: chunks(65_536) })
    expect(read.status).toBe(404)
    const refused = await send(service.httpUrl, { headers: asJson(key), body: chunks(65_537) })
    expect([refused.status, golden(refused.text)]).toEqual([413, TOO_LARGE])
  })

  test('a content-length that is too large is refused before the body arrives', async () => {
    const { key } = await service.business()
    const head = [
      `POST ${GENERATE} HTTP/1.1`,
      'Host: x',
      'Connection: close',
      'Content-Type: application/json',
      `Authorization: Bearer ${key}`,
      'Content-Length: 999999999999',
    ]
    const answer = await exchange(service.httpUrl, `${head.join('\r\n')}\r\n\r\n`)
    expect(answer).toMatch(/^HTTP\/1.1 413 /)
    expect(golden(answer.split('\r\n\r\n')[1] ?? '')).toBe(TOO_LARGE)
  })
})

describe('415 unsupported_media_type', () => {
  test.each([
    ['gzip', gzipSync('{"session_id":"1"}')],
    ['gzip', '{"session_id":"1"}'],
    ['br', '{"session_id":"1"}'],
    ['identity, gzip', '{"session_id":"1"}'],
  ])('a body with Content-Encoding: %s is refused', async (encoding, body) => {
    const { key } = await service.business()
    const headers = { ...asJson(key), 'content-encoding': encoding }
    const answer = await send(service.httpUrl, { headers, body })
    expect([answer.status, JSON.parse(answer.text)]).toMatchObject([
      415,
      { code: 'unsupported_media_type', message: 'Send the body without Content-Encoding' },
    ])
  })

  test('identity is no encoding', async () => {
    const { key } = await service.business()
    const headers = { ...asJson(key), 'content-encoding': 'Identity' }
    expect(await send(service.httpUrl, { headers, body: '{"session_id":"1"}' })).toMatchObject({
      status: 404,
    })
  })
})

describe('400 malformed_json: a key that is given twice', () => {
  test.each([
    ['{"session_id":"1","session_id":"1"}', 'session_id'],
    ['{"session_id":"1","session\\u005fid":"2"}', 'session_id'],
    ['{"session_id":"1","more":{"a":[{"b":1,"b":{"c":2}}]}}', 'more.a[0].b'],
    ['{"__proto__":1,"__proto__":2,"session_id":"1"}', '__proto__'],
  ])('%s', async (body, field) => {
    const { key } = await service.business()
    for (const path of PATHS) {
      const answer = await send(service.httpUrl, { path, headers: asJson(key), body })
      expect([answer.status, JSON.parse(answer.text)]).toMatchObject([
        400,
        {
          code: 'malformed_json',
          message: `The key "${field}" is given twice`,
          errors: [{ field, message: 'is given twice' }],
        },
      ])
    }
  })

  test('colons in values, and a key that is also elsewhere, are no matter', async () => {
    const { key } = await service.business()
    const body = '{"session_id":"1","at":"10:00:00","x":{"session_id":":"},"y":[{"x":1},{"x":2}]}'
    expect(await send(service.httpUrl, { headers: asJson(key), body })).toMatchObject({
      status: 404,
    })
  })
})
