import { beforeAll, describe, expect, test } from 'vitest'
import { keyIdOf } from '../../src/businesses/secret-key.ts'
import { useSharedService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { audited, data, openByKey, type ScopedBusiness, scopedBusiness } from './scene.ts'

const service = useSharedService()
let business: ScopedBusiness
let reference: string

beforeAll(async () => {
  business = await scopedBusiness(service)
  reference = (await openByKey(service, business.test)).reference
})

const simulate = (request: object) =>
  data(service, business.test, 'simulatePayment', { ...request })

/** The kinds of the events of a payment, in order. */
async function eventsOf(sessionId: string): Promise<string[]> {
  const { events } = await data(service, business.test, 'listEvents', { limit: 500 })
  return events
    .filter(
      (each: { data: { transaction_ref?: string } }) => each.data.transaction_ref === sessionId,
    )
    .map((each: { event: string }) => each.event)
}

/** Waits until all events so far are listed: with that of a later payment. */
async function allListed(): Promise<void> {
  const { session_id: sessionId } = await simulate({ reference, amount: 1 })
  await waitFor(async () => expect(await eventsOf(sessionId)).toEqual(['PAYMENT_NOTIFICATION']))
}

describe('a test key simulates', () => {
  test('a payment', async () => {
    const payment = await simulate({
      reference: 'order-1',
      amount: '1500.500',
      payerName: 'BOLA ADE',
    })
    expect(payment).toMatchObject({
      reference,
      amount: 1500.5,
      status: 'SUCCESS',
      customer: 'Ada Obi',
    })
    expect(payment.session_id).toMatch(/^\d{30}$/)
    const found = await data(service, business.test, 'getTransaction', {
      session_id: payment.session_id,
    })
    expect(found).toEqual(payment)
    await waitFor(async () => {
      expect(await eventsOf(payment.session_id)).toEqual(['PAYMENT_NOTIFICATION'])
    })
    const { rows } = await service.database.durablePool.query(
      'select t.recorded_by, t.live from transaction t where t.session_id = $1',
      [payment.session_id],
    )
    expect(rows).toEqual([{ recorded_by: `sandbox:${keyIdOf(business.test)}`, live: false }])
  })

  test('a pending payment, which is successful once it is reported again', async () => {
    const pending = await simulate({ reference, amount: 1000.01 })
    expect(pending.status).toBe('PENDING')
    const { session_id: sessionId } = pending
    await allListed()
    expect(await eventsOf(sessionId)).toEqual([])
    const paid = await simulate({ sessionId })
    expect(paid).toEqual({ ...pending, status: 'SUCCESS' })
    expect(await simulate({ session_id: sessionId })).toEqual(paid)
    await allListed()
    expect(await eventsOf(sessionId)).toEqual(['PAYMENT_NOTIFICATION'])
  })

  test('a payment that is reversed', async () => {
    const reversed = await simulate({ reference, amount: '1000.03' })
    expect(reversed.status).toBe('REVERSED')
    await waitFor(async () => {
      expect(await eventsOf(reversed.session_id)).toEqual([
        'PAYMENT_NOTIFICATION',
        'PAYMENT_REVERSED',
      ])
    })
    const [entry] = await audited(service, business.id, 1)
    expect(entry).toMatchObject({
      action: 'transaction.reverse',
      by: `secret_key ${keyIdOf(business.test)}`,
    })
  })
})
