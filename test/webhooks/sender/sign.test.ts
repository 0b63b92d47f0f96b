import { createHmac } from 'node:crypto'
import fc from 'fast-check'
import { Webhook } from 'standardwebhooks'
import { expect, test } from 'vitest'
import { newSecret, secretBytes } from '../../../src/webhooks/endpoints/signing-secret.ts'
import { signedHeaders } from '../../../src/webhooks/sender/sign.ts'

const nowSeconds = () => Math.floor(Date.now() / 1_000)

test('signatures verify with the Standard Webhooks library for any body', () => {
  fc.assert(
    fc.property(fc.json(), (body) => {
      const secret = newSecret()
      const headers = signedHeaders({
        eventId: 'evt_1',
        timestampSeconds: nowSeconds(),
        body,
        secrets: [secretBytes(secret)],
      })
      new Webhook(secret).verify(body, headers, { jsonParse: false })
    }),
    { numRuns: 200 },
  )
})

test('the signature equals that of the library', () => {
  const secret = newSecret()
  const at = new Date(1_795_000_000_000)
  const headers = signedHeaders({
    eventId: 'evt_1',
    timestampSeconds: at.getTime() / 1_000,
    body: '{"a":"Ệ"}',
    secrets: [secretBytes(secret)],
  })
  expect(headers['webhook-signature']).toBe(new Webhook(secret).sign('evt_1', at, '{"a":"Ệ"}'))
})

test('each active secret has a signature, and the x-wiaxy header is signed with the newest', () => {
  const [newest, oldest] = [newSecret(), newSecret()]
  const body = '{"event":"PAYMENT_NOTIFICATION"}'
  const timestampSeconds = nowSeconds()
  const headers = signedHeaders({
    eventId: 'evt_1',
    timestampSeconds,
    body,
    secrets: [secretBytes(newest), secretBytes(oldest)],
  })
  new Webhook(newest).verify(body, headers)
  new Webhook(oldest).verify(body, headers)
  expect(() => new Webhook(newSecret()).verify(body, headers)).toThrow()
  expect(headers['x-wiaxy-timestamp']).toBe(String(timestampSeconds))
  expect(headers['x-wiaxy-signature-256']).toBe(
    createHmac('sha256', Buffer.from(newest.slice('whsec_'.length), 'base64'))
      .update(`${timestampSeconds}.${body}`)
      .digest('hex'),
  )
})

test('a secret is whsec_ and 32 bytes in base64', () => {
  expect(newSecret()).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
  expect(secretBytes(newSecret())).toHaveLength(32)
  expect(newSecret()).not.toBe(newSecret())
})
