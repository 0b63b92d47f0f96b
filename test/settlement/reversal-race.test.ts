import { beforeEach, describe, expect, test } from 'vitest'
import { newId } from '../../src/core/ids.ts'
import { inTransaction } from '../../src/postgres/in-transaction.ts'
import { lockRunning, settleBatch } from '../../src/settlement/runs/batch-store.ts'
import { processNextBatch, startSettlement } from '../../src/settlement/runs/run-settlement.ts'
import { encodeTransactionEvent } from '../../src/transactions/message.ts'
import { lockTransaction } from '../../src/transactions/queries.ts'
import { reversePostings } from '../../src/transactions/reverse-store.ts'
import { reverseTransaction } from '../../src/transactions/reverse-transaction.ts'
import { useDatabase } from '../support/database.ts'
import { sequence } from '../support/events.ts'
import { SYSTEM } from '../support/operator.ts'
import {
  createInstance,
  findDiscrepancies,
  incoming,
  insertBusiness,
  testClock,
} from './fixture.ts'

const db = useDatabase(6)
const clock = testClock(Date.UTC(2026, 10, 20, 12))

let ids: string[]
let settlementId: string

/** A settlement that has begun, of two payments. */
beforeEach(async () => {
  const instance = createInstance(db.database, clock)
  const { id: businessId, accountNumber } = await insertBusiness(db.database.pool)
  ids = []
  for (const name of ['a', 'b']) {
    const payment = incoming(accountNumber, `${businessId}-${name}`, 500n)
    ids.push((await instance.recordPayment(payment)).transaction!.id)
  }
  await sequence(instance.pool)
  const fee = { feeFlatMinor: 7n, feeBasisPoints: 0, feeCapMinor: 0n }
  const begun = await startSettlement(instance, {
    ...{ businessId, live: true, requestId: undefined, forced: true },
    ...{ ...fee, cutOffAtMs: clock.now() },
  })
  settlementId = begun!.id
})

/** Resolves once another transaction waits for the lock of a balance. */
const whenWaiting = () =>
  expect
    .poll(async () => {
      const { rows } = await db.database.pool.query(
        `select from pg_locks l join pg_database d on d.oid = l.database
          where l.locktype = 'advisory' and not l.granted and d.datname = current_database()`,
      )
      return rows.length
    })
    .toBe(1)

const kindsOf = async (id: string) => {
  const { rows } = await db.database.pool.query<{ kind: string }>(
    'select kind from ledger_posting where transaction_id = $1 order by kind',
    [id],
  )
  return rows.map(({ kind }) => kind)
}

describe('a reversal and a settlement of the same payment at the same time', () => {
  test('a reversal waits for the settlement, and undoes it', async () => {
    const instance = createInstance(db.database, clock)
    const { reversing } = await inTransaction(instance.pool, async (client) => {
      const running = await lockRunning(client, settlementId, 'wait')
      if (typeof running === 'string') throw new Error('not running')
      const { settlement: after } = await settleBatch(client, running, 1, clock.now())
      expect(after).toMatchObject({ status: 'RUNNING', transactionCount: 1n })
      const reversal = { transactionId: ids[0]!, reason: 'recalled' }
      const promise = reverseTransaction(instance, reversal, SYSTEM)
      await whenWaiting()
      return { reversing: promise }
    })
    expect(await reversing).toMatchObject({ status: 'REVERSED', settled: true })
    expect(await kindsOf(ids[0]!)).toEqual([
      ...['fee', 'fee_reversal', 'payment', 'payment_reversal'],
      ...['settlement', 'settlement_reversal'],
    ])
    expect(await processNextBatch(instance, settlementId)).toBe('completed')
    await sequence(instance.pool)
    expect(await findDiscrepancies(instance.pool)).toEqual([])
  })

  test('a settlement waits for the reversal, and leaves the payment out', async () => {
    const instance = createInstance(db.database, clock)
    const { settling } = await inTransaction(instance.pool, async (client) => {
      const transaction = (await lockTransaction(client, ids[0]!))!
      const nowMs = clock.now()
      const eventId = newId('evt', nowMs)
      const payload = encodeTransactionEvent('PAYMENT_REVERSED', transaction, eventId, nowMs)
      const reversal = { reason: 'recalled', reversedAtMs: nowMs, eventId, payload }
      await reversePostings(client, transaction.id, reversal)
      const promise = processNextBatch(instance, settlementId)
      await whenWaiting()
      return { settling: promise }
    })
    expect(await settling).toBe('completed')
    expect(await kindsOf(ids[0]!)).toEqual(['payment', 'payment_reversal'])
    expect(await kindsOf(ids[1]!)).toEqual(['fee', 'payment', 'settlement'])
    await sequence(instance.pool)
    expect(await findDiscrepancies(instance.pool)).toEqual([])
  })
})
