import { beforeEach, describe, expect, test } from 'vitest'
import { updateTerms } from '../../src/settlement/change-terms.ts'
import { settle } from '../../src/settlement/runs/settle.ts'
import { reverseTransaction } from '../../src/transactions/reverse-transaction.ts'
import { tamper, useDatabase } from '../support/database.ts'
import { sequence } from '../support/events.ts'
import { SYSTEM } from '../support/operator.ts'
import {
  CALLER,
  createInstance,
  findDiscrepancies,
  incoming,
  insertBusiness,
  testClock,
} from './fixture.ts'

const db = useDatabase(4)
const clock = testClock(Date.UTC(2026, 10, 20, 12))

let businessId: string
let ids: string[]

/** One settled payment, one reversed after its settlement, and one unsettled. */
beforeEach(async () => {
  const instance = createInstance(db.database, clock)
  const { id, accountNumber } = await insertBusiness(db.database.durablePool)
  businessId = id
  const schedule = { schedule: 'DAILY' as const, workingDays: 0, cutOffMinutes: 0 }
  const fee = { feeFlatMinor: 7n, feeBasisPoints: 0, feeCapMinor: 0n }
  await updateTerms(instance, id, { ...schedule, ...fee }, SYSTEM)
  const pay = async (name: string) => {
    const { transaction } = await instance.recordPayment(
      incoming(accountNumber, `${id}-${name}`, 500n),
    )
    return transaction!.id
  }
  ids = [await pay('a'), await pay('b')]
  await sequence(instance.durablePool)
  await settle(instance, { businessId: id, live: true, requestId: '', force: true }, CALLER)
  await reverseTransaction(instance, instance, { transactionId: ids[1]!, reason: 'x' }, SYSTEM)
  ids.push(await pay('c'))
  await sequence(instance.durablePool)
  expect(await findDiscrepancies(instance.durablePool)).toEqual([])
})

/** Changes rows past every guard, like a superuser. @returns the discrepancies after it */
async function tampered(text: string, values: unknown[] = []): Promise<string[]> {
  expect(await tamper(db.database.durablePool, text, values)).toBeGreaterThan(0)
  return findDiscrepancies(db.database.durablePool)
}

describe('a verification reports', () => {
  test('a missing posting', async () => {
    const found = await tampered(
      "delete from ledger_posting where transaction_id = $1 and kind = 'payment'",
      [ids[2]],
    )
    expect(found).toContain(
      `${ids[2]}: is SUCCESS with amount 500; its payment postings add up to 0`,
    )
    expect(found).toContain(`${businessId}: the pending balance is 500; its postings add up to 0`)
    await tampered(
      `insert into ledger_posting (transaction_id, kind, business_id, live, debit_account,
        credit_account, amount_minor, created_at) values ($1, 'payment', $2, true, 'clearing:9PSB', 'pending', 500, now())`,
      [ids[2], businessId],
    )
  })

  test('a changed amount', async () => {
    const set =
      'update ledger_posting set amount_minor = $2 where transaction_id = $1 and kind = $3'
    const found = await tampered(set, [ids[0], 499, 'settlement'])
    expect(found).toContain(
      `${ids[0]}: is SUCCESS with amount 500; its settlement postings add up to 499`,
    )
    expect(found).toEqual(
      expect.arrayContaining([
        expect.stringMatching(
          /^stl_\w+: records 2 transactions, gross 1000, fees 14; its postings add up to 2 transactions, gross 999, fees 14$/,
        ),
      ]),
    )
    expect(await tampered(set, [ids[0], 500, 'settlement'])).toEqual([])
  })

  test('a missing fee reversal', async () => {
    const found = await tampered(
      "delete from ledger_posting where transaction_id = $1 and kind = 'fee_reversal'",
      [ids[1]],
    )
    expect(found).toContain(
      `${ids[1]}: is REVERSED; its reversal postings add up to 500 (payment), 500 (settlement) and 0 (fee)`,
    )
    expect(found).toContain(`${businessId}: the fee total is 7; its postings add up to 14`)
    await tampered(
      `insert into ledger_posting (transaction_id, kind, business_id, live, debit_account,
        credit_account, amount_minor, created_at) values ($1, 'fee_reversal', $2, true, 'fees', 'available', 7, now())`,
      [ids[1], businessId],
    )
  })

  test('a transaction without its session, and a session without its transaction', async () => {
    const set = 'update payment_session set transaction_id = $2 where transaction_id = $1'
    const found = await tampered(set, [ids[2], 'txn_none'])
    expect(found).toEqual([
      `${ids[2]}: is not found by its session`,
      `txn_none: is named by the session ${businessId}-c, but is not its transaction`,
    ])
    expect(await tampered(set, ['txn_none', ids[2]])).toEqual([])
    const rename = 'update payment_session set session_id = $2 where session_id = $1'
    expect(await tampered(rename, [`${businessId}-c`, 'other'])).toEqual(
      expect.arrayContaining([
        `${ids[2]}: is not found by its session`,
        `${ids[2]}: is named by the session other, but is not its transaction`,
      ]),
    )
    expect(await tampered(rename, ['other', `${businessId}-c`])).toEqual([])
  })

  test('a settlement without its postings', async () => {
    const which = "transaction_id = any ($1) and kind in ('settlement', 'fee')"
    const { rows } = await db.database.durablePool.query(
      `select to_jsonb(p) as posting from ledger_posting p where ${which}`,
      [ids],
    )
    expect(rows).toHaveLength(4)
    const found = await tampered(`delete from ledger_posting where ${which}`, [ids])
    expect(found).toEqual(
      expect.arrayContaining([
        expect.stringMatching(
          /^stl_\w+: records 2 transactions, gross 1000, fees 14; its postings add up to 0 transactions, gross 0, fees 0$/,
        ),
      ]),
    )
    const restore = `insert into ledger_posting
      select (jsonb_populate_record(null::ledger_posting, p)).* from jsonb_array_elements($1) p`
    expect(await tampered(restore, [JSON.stringify(rows.map((row) => row.posting))])).toEqual([])
  })

  test('a changed running sum', async () => {
    const set =
      'update event_business_counter set pending_minor = pending_minor + $2 where business_id = $1'
    const found = await tampered(set, [businessId, 1])
    expect(found).toEqual([
      `${businessId}: the pending balance is 501; its postings add up to 500`,
      `${businessId}: its running sums differ from the sums of its sequenced events`,
    ])
    expect(await tampered(set, [businessId, -1])).toEqual([])
  })

  test('a posting of another business', async () => {
    const set = 'update ledger_posting set business_id = $2 where transaction_id = $1'
    const found = await tampered(set, [ids[0], 'biz_other'])
    expect(found).toContain(`${ids[0]}: a posting belongs to another business or mode`)
    expect(await tampered(set, [ids[0], businessId])).toEqual([])
  })
})
