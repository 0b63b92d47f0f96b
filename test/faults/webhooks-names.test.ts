import { afterAll, beforeAll, expect, test } from 'vitest'
import { BANK_HTTP_LIMITS, createBankHttp } from '../../src/banks/http/create-bank-http.ts'
import { systemClock } from '../../src/core/clock.ts'
import { createNameResolver } from '../../src/net/addresses.ts'
import { type Nameserver, startNameserver } from '../support/nameserver.ts'
import { paymentEvent } from '../webhooks/fixture.ts'
import { addEndpoint, until, useWebhooks } from '../webhooks/harness.ts'

const harness = useWebhooks()
const EVENTS = 20
const HANGING = 100

/** The system's resolver, with its four threads, would take minutes for 100 such names. */
const LIMIT_MS = 30_000

let nameserver: Nameserver
beforeAll(async () => {
  nameserver = await startNameserver((name) =>
    name.startsWith('hangs') ? 'hangs' : { ipv4: ['127.0.0.1'] },
  )
})
afterAll(() => nameserver.close())

const resolver = () => createNameResolver({ servers: [nameserver.address] })

test('100 names whose nameserver does not respond delay neither a webhook nor a bank', async () => {
  const webhooks = harness.started({ resolve: resolver(), retryScheduleMs: [60_000] })
  const receiver = await harness.receiver()
  const { port } = new URL(receiver.url)
  const hostile = [await harness.business(), await harness.business()]
  const honest = await harness.business()
  for (let i = 0; i < HANGING; i++) {
    await addEndpoint(webhooks, hostile[i % 2]!, `http://hangs${i}.example:${port}/`)
  }
  await addEndpoint(webhooks, honest, `http://well.example:${port}/`)
  const http = createBankHttp({
    baseUrl: `http://bank.example:${port}`,
    limits: BANK_HTTP_LIMITS,
    clock: systemClock,
    resolve: resolver(),
    observe: () => undefined,
  })
  harness.closing(http.close)

  await harness.publish(...Array.from({ length: EVENTS }, (_, i) => paymentEvent(hostile[i % 2]!)))
  await until(async () => nameserver.asked.filter((name) => name.startsWith('hangs')).length >= 50)
  const response = await http.send({
    method: 'POST',
    path: '',
    headers: {},
    body: '{}',
    signal: AbortSignal.timeout(LIMIT_MS),
  })
  expect(response.status).toBe(200)
  await harness.publish(...Array.from({ length: EVENTS }, () => paymentEvent(honest)))
  await receiver.waitFor((requests) => requests.length >= EVENTS + 1, LIMIT_MS)
  expect(receiver.requests.every(({ headers }) => !headers.host?.startsWith('hangs'))).toBe(true)
})
