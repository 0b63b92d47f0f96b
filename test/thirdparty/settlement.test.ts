import { beforeAll, describe, expect, test } from 'vitest'
import { Schedule } from '../../gen/inflow/settlement/v1/settlement_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { useSharedService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { data, openByKey, type ScopedBusiness, scopedBusiness, settleTest } from './scene.ts'

const service = useSharedService()
let business: ScopedBusiness
let stranger: ScopedBusiness
let settlementId: string
let sessions: string[]

/** Two payments that are settled, with a fee of one percent, and one that is not. */
beforeAll(async () => {
  business = await scopedBusiness(service)
  stranger = await scopedBusiness(service)
  const businessId = business.id
  const settlements = service.client(SettlementService)
  const terms = { schedule: Schedule.WORKING_DAYS, workingDays: 5, feeBasisPoints: 100 }
  await settlements.updateSettlementTerms({ businessId, terms })
  const { reference } = await openByKey(service, business.test)
  const pay = async (amount: string) => {
    const payment = await data(service, business.test, 'simulatePayment', { reference, amount })
    return payment.session_id as string
  }
  sessions = [await pay('1500.50'), await pay('100')]
  settlementId = await settleTest(service, businessId, 2n)
  sessions.push(await pay('0.01'))
})

describe('getStatement/', () => {
  const statement = (request: object, key = business.test) =>
    data(service, key, 'getStatement', { ...request })

  test('explains the balance, entry by entry', async () => {
    const balance = await data(service, business.test, 'getBalance')
    const page = await waitFor(async () => {
      const found = await statement({})
      expect(found.entries).toHaveLength(4)
      return found
    })
    expect(page.opening_balance).toEqual({ pending: 0, available: 0, fees: 0, currency: 'NGN' })
    expect({ ...page.closing_balance, reserved: 0 }).toEqual(balance)
    const [first, second, third, fourth] = page.entries
    expect([first, second, fourth]).toMatchObject([
      { event: 'PAYMENT_NOTIFICATION', session_id: sessions[0], pending: 1500.5, available: 0 },
      { event: 'PAYMENT_NOTIFICATION', session_id: sessions[1], pending: 100 },
      { event: 'PAYMENT_NOTIFICATION', session_id: sessions[2], pending: 0.01 },
    ])
    expect(first).not.toHaveProperty('settlement_id')
    expect(third).toMatchObject({
      event: 'SETTLEMENT_COMPLETED',
      settlement_id: settlementId,
      pending: -1600.5,
      available: 1584.49,
      fees: 16.01,
    })
    expect(third).not.toHaveProperty('session_id')
    for (const key of [business.live, stranger.test]) {
      expect((await statement({}, key)).entries).toEqual([])
    }
  })
})
