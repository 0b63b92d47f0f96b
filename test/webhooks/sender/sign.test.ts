import { createHash, createHmac } from 'node:crypto'
import fc from 'fast-check'
import { Webhook } from 'standardwebhooks'
import { expect, test } from 'vitest'
import { STANDARD_FORMAT } from '../../../src/webhooks/endpoints/request-format.ts'
import { newSecret, secretBytes, signedHeaders } from '../../../src/webhooks/sender/sign.ts'

const nowSeconds = () => Math.floor(Date.now() / 1_000)

test('signatures verify with the Standard Webhooks library for any body', () => {
  fc.assert(
    fc.property(fc.json({ stringUnit: 'grapheme' }), (body) => {
      const secret = newSecret()
      const signing = { eventId: 'evt_1', timestampSeconds: nowSeconds(), body }
      const headers = signedHeaders({ ...signing, secrets: [secret] }, STANDARD_FORMAT)
      new Webhook(secret).verify(body, headers, { jsonParse: false })
    }),
    { numRuns: 200 },
  )
})

test('each active secret has a signature; endpoints without a profile have x-wiaxy headers too, of the newest', () => {
  const [newest, oldest] = [newSecret(), newSecret()]
  const body = '{"event":"PAYMENT_NOTIFICATION"}'
  const timestampSeconds = nowSeconds()
  const signing = { eventId: 'evt_1', timestampSeconds, body, secrets: [newest, oldest] as const }
  const headers = signedHeaders(signing, STANDARD_FORMAT)
  new Webhook(newest).verify(body, headers)
  new Webhook(oldest).verify(body, headers)
  expect(() => new Webhook(newSecret()).verify(body, headers)).toThrow()
  expect(signedHeaders(signing, { ...STANDARD_FORMAT, profile: null })).toEqual({
    ...headers,
    'x-wiaxy-timestamp': String(timestampSeconds),
    'x-wiaxy-signature-256': createHmac('sha256', secretBytes(newest))
      .update(`${timestampSeconds}.${body}`)
      .digest('hex'),
  })
})

test('in the wiaxy profile the text itself is the key, and the weak signatures come on request', () => {
  fc.assert(
    fc.property(fc.json(), fc.stringMatching(/^[!-~]{16,256}$/), (body, text) => {
      const secrets = [text, 'the text before the rotation'] as const
      const signing = { eventId: 'evt_1', timestampSeconds: 1_795_000_000, body, secrets }
      const hmac = (signed: string) => createHmac('sha256', text).update(signed).digest('hex')
      const headers = {
        'content-type': 'application/json',
        'user-agent': 'Inflow-Webhooks/1',
        'x-wiaxy-timestamp': '1795000000',
        'x-wiaxy-signature-256': hmac(`1795000000.${body}`),
      }
      const headersOf = (legacySignature: 'MD5' | 'HMAC_BODY' | null) =>
        signedHeaders(signing, { profile: 'WIAXY', legacySignature })
      expect(headersOf(null)).toEqual(headers)
      const md5 = createHash('md5').update(text).digest('hex')
      expect(headersOf('MD5')).toEqual({ ...headers, 'x-wiaxy-signature': md5 })
      expect(headersOf('HMAC_BODY')).toEqual({ ...headers, 'x-wiaxy-signature': hmac(body) })
    }),
  )
})

test('a secret is whsec_ and 32 bytes in base64', () => {
  expect(newSecret()).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
  expect(secretBytes(newSecret())).toHaveLength(32)
  expect(newSecret()).not.toBe(newSecret())
})
