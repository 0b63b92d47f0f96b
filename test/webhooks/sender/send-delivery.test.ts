import { expect, test } from 'vitest'
import { readConfig } from '../../../src/config/config.ts'
import { STANDARD_FORMAT } from '../../../src/webhooks/endpoints/request-format.ts'
import type { HttpClient, Outcome } from '../../../src/webhooks/sender/http-client.ts'
import { createSender } from '../../../src/webhooks/sender/send-delivery.ts'
import { encryptSecret, newSecret, signedHeaders } from '../../../src/webhooks/sender/sign.ts'
import { captureLog } from '../../support/captured-log.ts'
import { createTestRuntime } from '../../support/runtime.ts'
import { encrypter, paymentEvent, timeText } from '../fixture.ts'

const ACKNOWLEDGED: Outcome = { status: 200, responseBody: '', error: '', retryAfter: undefined }

type Sent = { readonly body: string; readonly headers: Readonly<Record<string, string>> }

/** Sends events to one endpoint, whose secret is encrypted for it unless stated otherwise. */
function setUp() {
  const sent: Sent[] = []
  const { log, lines: logged } = captureLog('error')
  const httpClient: HttpClient = {
    timeoutMs: 15_000,
    async post(_url, headers, body) {
      sent.push({ body: body.toString(), headers })
      return ACKNOWLEDGED
    },
    close: async () => undefined,
  }
  const send = createSender(createTestRuntime({}, { log }), {
    encrypter,
    timeText,
    httpClient,
    bankNames: readConfig({}).bankNames,
    loadConnection: async () => undefined,
  })
  const deliver = (
    { id, kind, businessId, payload }: ReturnType<typeof paymentEvent>,
    { startedAtMs = 0, previousSequence = 2, secrets = [secretOf(1, newSecret())] } = {},
  ) => {
    const place = { position: 7n, businessSequence: 3n, epoch: 1, occurredAtMs: 0, live: true }
    return send({
      startedAtMs,
      startedTickMs: 0,
      claim: {
        id: `dlv_${id}`,
        position: 7n,
        endpointId: 'ep_1',
        attempts: 0,
        fence: 1,
        url: 'https://example.com/',
        concurrency: 1,
        previousSequence,
        connectionVersion: 0,
        ordered: false,
        format: STANDARD_FORMAT,
        secrets,
        entry: { ...place, eventId: id, businessId, kind, payload },
      },
    })
  }
  return { sent, logged, deliver }
}

const secretOf = (number: number, secret: string, endpointId = 'ep_1') => ({
  number,
  isNext: false,
  encrypted: encryptSecret(encrypter, { endpointId, number }, secret),
})

test('a request is signed with every secret, the newest first, at the second of its attempt', async () => {
  const { sent, deliver } = setUp()
  const [newest, earlier] = [newSecret(), newSecret()]
  const event = paymentEvent('biz_1')
  const secrets = [secretOf(2, newest), secretOf(1, earlier)]
  expect(await deliver(event, { startedAtMs: 1_795_000_000_999, secrets })).toEqual(ACKNOWLEDGED)
  const [{ body, headers }] = sent as [Sent]
  expect(headers).toEqual(
    signedHeaders(
      {
        eventId: event.id,
        timestampSeconds: 1_795_000_000,
        body,
        secrets: [newest, earlier],
      },
      STANDARD_FORMAT,
    ),
  )
})

test('a request that cannot be built is a failed attempt, is logged and is not sent', async () => {
  const { sent, logged, deliver } = setUp()
  const unreadable = { ...paymentEvent('biz_1'), payload: Buffer.from('no event') }
  const outcomes = [
    await deliver(unreadable),
    await deliver(paymentEvent('biz_1'), { secrets: [] }),
    await deliver(paymentEvent('biz_1'), { secrets: [secretOf(1, newSecret(), 'ep_2')] }),
  ]
  const failed = {
    status: undefined,
    responseBody: '',
    error: 'internal error: the request could not be built',
    retryAfter: undefined,
  }
  expect(outcomes).toEqual([failed, failed, failed])
  expect(logged).toHaveLength(3)
  for (const entry of logged) {
    expect(entry).toMatchObject({ msg: 'webhook request could not be built', err: {} })
    expect(entry['delivery']).toMatch(/^dlv_/)
  }
  expect(sent).toEqual([])
})

test('a position reused by another event after a restore gets that event’s body', async () => {
  const { sent, deliver } = setUp()
  const lost = paymentEvent('biz_lost', 100n)
  const kept = paymentEvent('biz_kept', 200n)
  for (const event of [lost, kept, kept]) expect(await deliver(event)).toEqual(ACKNOWLEDGED)
  const ids = sent.map(({ body }) => JSON.parse(body).data.event_id)
  expect(ids).toEqual([lost.id, kept.id, kept.id])
  expect(sent[1]?.body).toBe(sent[2]?.body)
})
