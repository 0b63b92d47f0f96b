import { createHmac } from 'node:crypto'
import fc from 'fast-check'
import { Webhook } from 'standardwebhooks'
import { describe, expect, test } from 'vitest'
import { verifyWebhook } from '../../src/client/verify-webhook.ts'
import { STANDARD_FORMAT } from '../../src/webhooks/endpoints/request-format.ts'
import { newSecret, secretBytes, signedHeaders } from '../../src/webhooks/sender/sign.ts'

const NOW_MS = Date.UTC(2026, 10, 20, 9, 0, 0)
const at = (ms: number) => ({ now: () => ms })

/** Bodies that a sender may send: an event, with arbitrary data. */
const bodies = fc
  .tuple(fc.string(), fc.dictionary(fc.string(), fc.jsonValue()))
  .map(([event, data]) => JSON.stringify({ event, data }))

const ids = fc.stringMatching(/^[A-Za-z0-9_-]{1,40}$/)

/** Secrets that a Standard Webhooks sender may create: 24 to 64 bytes. */
const secrets = fc
  .uint8Array({ minLength: 24, maxLength: 64 })
  .map((bytes) => `whsec_${Buffer.from(bytes).toString('base64')}`)

function ours(secret: string | readonly string[], body: string, timestampMs = NOW_MS) {
  const [newest, ...earlier] = [secret].flat()
  const timestampSeconds = Math.floor(timestampMs / 1_000)
  const secrets = [newest!, ...earlier] as const
  return signedHeaders({ eventId: 'evt_1', timestampSeconds, body, secrets }, STANDARD_FORMAT)
}

const BODY = '{"event":"PAYMENT_NOTIFICATION","data":{"event_id":"evt_1","sequence":1}}'

describe('compatibility with the Standard Webhooks library', () => {
  test('the library verifies our signatures of any event', () => {
    fc.assert(
      fc.property(secrets, bodies, (secret, body) => {
        const headers = ours(secret, body, Date.now())
        expect(new Webhook(secret).verify(body, headers)).toEqual(JSON.parse(body))
      }),
    )
  })

  test('we verify the signatures of the library for any event, id and secret', () => {
    fc.assert(
      fc.property(secrets, ids, bodies, fc.boolean(), (secret, id, body, bytes) => {
        const signature = new Webhook(secret).sign(id, new Date(NOW_MS), body)
        const headers = {
          'webhook-id': id,
          'webhook-timestamp': String(NOW_MS / 1_000),
          'webhook-signature': signature,
        }
        const raw = bytes ? Buffer.from(body) : body
        const result = verifyWebhook(raw, headers, secret, at(NOW_MS))
        expect(result).toEqual({ ok: true, event: JSON.parse(body) })
      }),
    )
  })

  test('both accept the same timestamps', () => {
    fc.assert(
      fc.property(fc.integer({ min: -310, max: 310 }), (ageSeconds) => {
        const secret = newSecret()
        const nowMs = Math.floor(Date.now() / 1_000) * 1_000
        const headers = ours(secret, BODY, nowMs - ageSeconds * 1_000)
        const { ok } = verifyWebhook(BODY, headers, secret, at(nowMs))
        expect(ok).toBe(Math.abs(ageSeconds) <= 300)
        // The library reads its own clock, which may be some seconds later by now.
        if (Math.abs(Math.abs(ageSeconds) - 300) <= 5) return
        let theirs = true
        try {
          new Webhook(secret).verify(BODY, headers)
        } catch {
          theirs = false
        }
        expect(theirs).toBe(ok)
      }),
    )
  })
})

describe('a webhook is refused', () => {
  const secret = newSecret()
  const good = ours(secret, BODY)
  const check = (headers: object, body = BODY, secretOf: string | string[] = secret) =>
    verifyWebhook(body, headers as Record<string, string>, secretOf, at(NOW_MS))

  test.each(['webhook-id', 'webhook-timestamp', 'webhook-signature'])('without %s', (name) => {
    expect(check({ ...good, [name]: undefined })).toEqual({ ok: false, reason: 'missing_header' })
    expect(check({ ...good, [name]: '' })).toEqual({ ok: false, reason: 'missing_header' })
    expect(check({ ...good, [name]: ['a', 'b'] })).toEqual({ ok: false, reason: 'missing_header' })
  })

  test.each(['x', '1.5', '-1', '1e9', '9999999999999', ' 1'])(
    'with the timestamp %s',
    (timestamp) => {
      const result = check({ ...good, 'webhook-timestamp': timestamp })
      expect(result).toEqual({ ok: false, reason: 'malformed_timestamp' })
    },
  )

  test('when it is older or newer than five minutes', () => {
    const now = (seconds: number) => at(NOW_MS + seconds * 1_000)
    const reasonAt = (seconds: number) => {
      const result = verifyWebhook(BODY, good, secret, now(seconds))
      return result.ok ? 'ok' : result.reason
    }
    expect([301, 300, -300, -301].map(reasonAt)).toEqual([
      'timestamp_too_old',
      'ok',
      'ok',
      'timestamp_too_new',
    ])
  })

  test('when any part of it was changed', () => {
    const refused = { ok: false, reason: 'no_matching_signature' }
    expect(check(good, BODY.replace('1', '2'))).toEqual(refused)
    expect(check({ ...good, 'webhook-id': 'evt_2' })).toEqual(refused)
    expect(check({ ...good, 'webhook-timestamp': String(NOW_MS / 1_000 + 1) })).toEqual(refused)
    expect(check(good, BODY, newSecret())).toEqual(refused)
    const signature = good['webhook-signature'] as string
    for (const other of [
      signature.replace('v1,', 'v2,'),
      signature.replace('v1,', ''),
      signature.slice(0, -8),
      `${signature}AAAA`,
      'v1,',
      'v1',
      ` ${'v1,AAAA '.repeat(1_000)}${signature}`,
    ]) {
      expect(check({ ...good, 'webhook-signature': other })).toEqual(refused)
    }
  })

  test.each(['', 'whsec_', 'whsec_%%%%', 'whsec_abc'])('with the secret "%s"', (wrong) => {
    expect(check(good, BODY, wrong)).toEqual({ ok: false, reason: 'malformed_secret' })
    expect(check(good, BODY, [secret, wrong])).toEqual({ ok: false, reason: 'malformed_secret' })
  })

  test.each(['', '[]', '"text"', 'null', '{"event":1,"data":{}}', '{"event":"A"}', '{'])(
    'with the body %s, although it is signed',
    (body) => {
      const result = check(ours(secret, body), body)
      expect(result).toEqual({ ok: false, reason: 'malformed_body' })
    },
  )

  test('without throwing, whatever is sent', () => {
    const text = fc.oneof(fc.string({ unit: 'binary' }), fc.constant(String(NOW_MS / 1_000)))
    fc.assert(
      fc.property(text, text, text, fc.uint8Array(), (id, timestamp, signature, body) => {
        const headers = {
          'webhook-id': id,
          'webhook-timestamp': timestamp,
          'webhook-signature': signature,
        }
        expect(verifyWebhook(body, headers, secret, at(NOW_MS)).ok).toBe(false)
      }),
    )
  })
})

describe('a webhook is accepted', () => {
  test('with the old or the new secret during a rotation, on either side', () => {
    const [newest, earlier] = [newSecret(), newSecret()]
    const both = ours([newest, earlier], BODY)
    for (const known of [newest, earlier, [newest, earlier], [newSecret(), earlier]]) {
      expect(verifyWebhook(BODY, both, known, at(NOW_MS)).ok).toBe(true)
    }
    expect(verifyWebhook(BODY, ours(earlier, BODY), [newest, earlier], at(NOW_MS)).ok).toBe(true)
  })

  test('with headers of fetch, of Node and of frameworks that keep the case of names', () => {
    const secret = newSecret()
    const plain = ours(secret, BODY)
    const titled = Object.fromEntries(
      Object.entries(plain).map(([name, value]) => [name.toUpperCase(), value]),
    )
    const lists = Object.fromEntries(Object.entries(plain).map(([name, value]) => [name, [value]]))
    for (const headers of [plain, new Headers(plain), titled, lists]) {
      expect(verifyWebhook(BODY, headers, secret, at(NOW_MS)).ok).toBe(true)
    }
  })

  test('by its bytes, even if they are not UTF-8', () => {
    const secret = newSecret()
    // Not UTF-8: decoding and encoding again would change the body and its signature.
    const bytes = Buffer.concat([
      Buffer.from('{"event":"A","data":{"x":"'),
      Buffer.of(0xff, 0xc3, 0x28, 0x80),
      Buffer.from('"}}'),
    ])
    const timestamp = String(NOW_MS / 1_000)
    const hmac = createHmac('sha256', secretBytes(secret)).update(`evt_1.${timestamp}.`)
    const headers = {
      'webhook-id': 'evt_1',
      'webhook-timestamp': timestamp,
      'webhook-signature': `v1,${hmac.update(bytes).digest('base64')}`,
    }
    expect(verifyWebhook(bytes, headers, secret, at(NOW_MS)).ok).toBe(true)
    expect(verifyWebhook(bytes.toString(), headers, secret, at(NOW_MS)).ok).toBe(false)
  })
})
