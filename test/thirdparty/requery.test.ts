import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { claimRequery } from '../../src/accounts/list-accounts.ts'
import { fakeBanks } from '../reconciliation/scene.ts'
import { type RestAnswer, useService } from '../support/service.ts'
import { data, openByKey, type ScopedBusiness, scopedBusiness } from './scene.ts'

const { ninePsb, safeHaven, palmPay, environment } = await fakeBanks()
// No run of reconciliation may find a payment first.
const service = useService({
  ...environment,
  RECONCILE_INTERVAL_MINUTES: '0',
  BANK_9PSB_TIMEOUT_MS: '40000',
  BANK_PALMPAY_TIMEOUT_MS: '40000',
})
let business: ScopedBusiness

beforeAll(async () => {
  business = await scopedBusiness(service)
})

afterEach(() => {
  for (const { faults } of [ninePsb, safeHaven, palmPay]) faults.clear()
})

const requery = (reference: string) =>
  data(service, business.live, 'requeryTransaction', { reference })

/** The sessions of the payments that are recorded for an account. */
async function sessionsOf(reference: string): Promise<string[]> {
  const { transactions } = await data(service, business.live, 'listTransactions', { reference })
  return transactions.map((each: { session_id: string }) => each.session_id)
}

/** As if a minute had passed since the bank was asked. */
const aMinuteLater = () =>
  service.database.durablePool.query(
    "update account set requeried_at = requeried_at - interval '60 s'",
  )

const IDENTITY = { idType: 'nin', idNumber: '12345678901' }

describe('requeryTransaction/', () => {
  test.each([
    ['9PSB', (number: string) => ninePsb.receive(number, '0.30').sessionId],
    ['SAFEHAVEN', (number: string) => safeHaven.receive(number, '1500.50').sessionId],
    ['PALMPAY', (number: string) => palmPay.receive(number, '20').sessionId],
  ])('records what %s received and did not notify of, once', async (bank, receive) => {
    const other = await openByKey(service, business.live, {
      reference: `${bank}-o`,
      bank,
      ...IDENTITY,
    })
    const { number, reference } = await openByKey(service, business.live, {
      reference: `${bank}-1`,
      bank,
      ...IDENTITY,
    })
    const sessionId = receive(number)
    receive(other.number)
    expect(await requery(`${bank}-1`)).toEqual({ reference, found: 1, recorded: 1 })
    expect(await sessionsOf(reference)).toEqual([sessionId])
    await aMinuteLater()
    expect(await requery(reference)).toEqual({ reference, found: 1, recorded: 0 })
    expect(await sessionsOf(reference)).toEqual([sessionId])
    // The bank was asked about this account alone.
    expect(await sessionsOf(other.reference)).toEqual([])
  })

  test('asks the bank once a minute for an account, however many ask', async () => {
    const { reference } = await openByKey(service, business.live, { reference: 'often' })
    const before = ninePsb.requests.confirm
    const calls = await Promise.all(
      Array.from({ length: 8 }, () =>
        service.post('requeryTransaction/', business.live, { reference }),
      ),
    )
    const statuses = calls.map(({ status }) => status).sort()
    expect(statuses).toEqual([200, ...Array.from({ length: 7 }, () => 429)])
    expect(ninePsb.requests.confirm).toBe(before + 1)
    const refused = calls.find(({ status }) => status === 429) as RestAnswer
    expect(refused.body.code).toBe('rate_limited')
    const waitSeconds = Number(refused.headers.get('retry-after'))
    expect(waitSeconds).toBeGreaterThan(0)
    expect(waitSeconds).toBeLessThanOrEqual(60)
    await aMinuteLater()
    await requery(reference)
    expect(ninePsb.requests.confirm).toBe(before + 2)
  })

  test('asks a call to wait a minute at most, also if it began before the one that asked the bank', async () => {
    const { reference } = await openByKey(service, business.live, { reference: 'overtaken' })
    const { durablePool } = service.database
    const { rows } = await durablePool.query('select id from account where reference = $1', [
      reference,
    ])
    const nowMs = Date.now()
    expect(await claimRequery(durablePool, rows[0].id, nowMs, 60_000)).toBe(0)
    expect(await claimRequery(durablePool, rows[0].id, nowMs - 5_000, 60_000)).toBe(60_000)
  })

  test('says that the bank did not respond, and records nothing', async () => {
    const { reference, number } = await openByKey(service, business.live, { reference: 'cut' })
    ninePsb.receive(number, '5')
    ninePsb.faults.add('confirm', 'cut', 20)
    const { status, body, headers } = await service.post('requeryTransaction/', business.live, {
      reference,
    })
    expect([status, body.code, headers.get('retry-after')]).toEqual([503, 'bank_unavailable', '60'])
    expect(await sessionsOf(reference)).toEqual([])
    ninePsb.faults.clear()
    await aMinuteLater()
    expect(await requery(reference)).toMatchObject({ found: 1, recorded: 1 })
  })

  test('finds nothing for a test account: the sandbox records what it simulates', async () => {
    const { reference } = await openByKey(service, business.test, { reference: 'test' })
    await data(service, business.test, 'simulatePayment', { reference, amount: 5 })
    for (let i = 0; i < 2; i++) {
      const found = await data(service, business.test, 'requeryTransaction', { reference })
      expect(found).toEqual({ reference, found: 0, recorded: 0 })
    }
  })
})
