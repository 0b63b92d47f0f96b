import { expect, test } from 'vitest'
import { encryptSecret, newSecret } from '../../../src/webhooks/endpoints/signing-secret.ts'
import type { Outcome } from '../../../src/webhooks/sender/http-client.ts'
import { createSender } from '../../../src/webhooks/sender/send-delivery.ts'
import { encrypter, paymentEvent, silent, timeText } from '../fixture.ts'

const ACKNOWLEDGED: Outcome = { status: 200, responseBody: '', error: '', retryAfter: undefined }

test('a position reused by another event after a restore gets that event’s body', async () => {
  const bodies: string[] = []
  const send = createSender({
    encrypter,
    timeText,
    log: silent,
    httpClient: {
      async post(_url, _headers, body) {
        bodies.push(body.toString())
        return ACKNOWLEDGED
      },
      close: async () => undefined,
    },
  })
  const deliver = ({ id, kind, businessId, payload }: ReturnType<typeof paymentEvent>) => {
    const logged = { position: 7n, businessSequence: 3n, epoch: 1, occurredAtMs: 0, live: true }
    const key = { endpointId: 'ep_1', number: 1 }
    const secrets = [{ number: 1, encrypted: encryptSecret(encrypter, key, newSecret()) }]
    return send({
      startedAtMs: 0,
      startedTickMs: 0,
      claim: {
        id: `dlv_${id}`,
        position: 7n,
        endpointId: 'ep_1',
        attempts: 0,
        fence: 1,
        url: 'https://example.com/',
        concurrency: 1,
        secrets,
        entry: { ...logged, eventId: id, businessId, kind, payload },
      },
    })
  }
  const lost = paymentEvent('biz_lost', 100n)
  const kept = paymentEvent('biz_kept', 200n)
  for (const event of [lost, kept, kept]) expect(await deliver(event)).toEqual(ACKNOWLEDGED)
  expect(bodies.map((body) => JSON.parse(body).data.event_id)).toEqual([lost.id, kept.id, kept.id])
  expect(bodies[1]).toBe(bodies[2])
})
