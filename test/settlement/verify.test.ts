import { fromBinary, toBinary } from '@bufbuild/protobuf'
import type { Pool } from 'pg'
import { beforeAll, describe, expect, test } from 'vitest'
import { EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
import { DAY_MS } from '../../src/core/durations.ts'
import { archiveEvents } from '../../src/events/retention.ts'
import { verifyPayouts } from '../../src/payouts/verify-payouts.ts'
import { type Verification, verifyLedger } from '../../src/settlement/verify-ledger.ts'
import { tamper, useDatabase } from '../support/database.ts'
import { sequence } from '../support/events.ts'
import {
  createInstance,
  findDiscrepancies,
  incoming,
  insertBusiness,
  testClock,
} from './fixture.ts'
import { createScene, percent } from './shares-fixture.ts'

const db = useDatabase(4)
const clock = testClock(Date.now() - DAY_MS)

let instance: ReturnType<typeof createInstance>
/** The ids of what the tests change, by the names that their statements and findings have. */
let ids: Readonly<Record<string, string>>

const pay = async (account: string, session: string) =>
  (await instance.recordPayment(incoming(account, `${account}-${session}`, 500n))).transaction!.id

async function insertPayingBusiness() {
  const business = await insertBusiness(db.database.durablePool)
  await instance.setTerms(business.id, { feeFlatMinor: 7n })
  return business
}

/**
 * A business with a settled payment, one that was reversed after its settlement and an unsettled one, with the sequence
 * numbers 1, 2 and 5; and another one that shares a payment with a partner.
 */
beforeAll(async () => {
  instance = createInstance(db.database, clock)
  const { id: shop, accountNumber } = await insertPayingBusiness()
  const settled = await pay(accountNumber, 'a')
  const reversed = await pay(accountNumber, 'b')
  await sequence(instance.durablePool)
  const { settlements } = await instance.settleNow(shop)
  await instance.reverse(reversed)
  const unsettled = await pay(accountNumber, 'c')
  const scene = createScene(db.database)
  const [owner, partner] = [await scene.business(0), await scene.business()]
  await owner.split([percent(partner.id, 1_000)])
  const shared = await owner.pay(1_000n)
  const [of] = await owner.settle()
  ids = {
    session_c: `${accountNumber}-c`,
    shop,
    settled,
    reversed,
    unsettled,
    stl_first: settlements[0]!.id,
    owner: owner.id,
    partner: partner.id,
    shared,
    stl_split: of!.id,
  }
  expect(await findDiscrepancies(instance.durablePool)).toEqual([])
})

const toIds = (text: string) =>
  text.replaceAll(/'(\w+)'/g, (quoted, name) => (ids[name] ? `'${ids[name]}'` : quoted))

const toNames = (text: string) =>
  Object.entries(ids).reduce((named, [name, id]) => named.replaceAll(id, name), text)

/** The discrepancies after a change past every guard, which is rolled back. */
async function findAfter(change: (pool: Pool) => Promise<unknown>): Promise<string[]> {
  const client = await db.database.durablePool.connect()
  const query = (text: string, ...rest: []) =>
    /^(begin|commit)/.test(text) ? undefined : client.query(text, ...rest)
  const inner = { query, on() {}, off() {}, release() {} }
  const pool = { query, connect: async () => inner } as unknown as Pool
  try {
    await client.query('begin')
    await client.query("set local session_replication_role = 'replica'")
    await change(pool)
    return (await findDiscrepancies(pool)).map(toNames)
  } finally {
    await client.query('rollback')
    client.release()
  }
}

const payloadWith = async (field: string, value: unknown) => {
  const { rows } = await db.database.durablePool.query(
    "select payload from outbox where subject_id = $1 and kind = 'PAYMENT_NOTIFICATION'",
    [ids['settled']],
  )
  const event = fromBinary(EventSchema, rows[0].payload)
  Object.assign(event.payload.value!, { [field]: value })
  return Buffer.from(toBinary(EventSchema, event))
}

describe('a verification reports', () => {
  test.each<[string, string, string[]]>([
    [
      'a missing posting',
      "delete from ledger_posting where transaction_id = 'unsettled'",
      [
        'shop: the pending balance is 500; its postings add up to 0',
        'unsettled: is SUCCESS with amount 500; its payment postings add up to 0',
      ],
    ],
    [
      'a changed amount',
      "update ledger_posting set amount_minor = 499 where transaction_id = 'settled' and kind = 'settlement'",
      [
        'settled: is SUCCESS with amount 500; its settlement postings add up to 499',
        'shop: the available balance is 493; its postings add up to 492',
        'shop: the pending balance is 500; its postings add up to 501',
        'stl_first: records 2 transactions, gross 1000, fees 14; its postings add up to 2 transactions, gross 999, fees 14',
      ],
    ],
    [
      'a missing fee reversal',
      "delete from ledger_posting where transaction_id = 'reversed' and kind = 'fee_reversal'",
      [
        'reversed: is REVERSED; its reversal postings add up to 500 (payment), 500 (settlement) and 0 (fee)',
        'shop: the available balance is 493; its postings add up to 486',
        'shop: the fee total is 7; its postings add up to 14',
      ],
    ],
    [
      'a session of another transaction',
      "update payment_session set transaction_id = 'txn_none' where transaction_id = 'unsettled'",
      [
        'txn_none: is named by the session session_c, but is not its transaction',
        'unsettled: is not found by its session',
      ],
    ],
    [
      'a renamed session',
      "update payment_session set session_id = 'other' where transaction_id = 'unsettled'",
      [
        'unsettled: is named by the session other, but is not its transaction',
        'unsettled: is not found by its session',
      ],
    ],
    [
      'a changed running sum',
      "update event_business_counter set pending_minor = pending_minor + 1 where business_id = 'shop'",
      [
        'shop: its running sums differ from the sums of its sequenced events',
        'shop: the pending balance is 501; its postings add up to 500',
      ],
    ],
    [
      'postings of another business',
      "update ledger_posting set business_id = 'biz_other' where transaction_id = 'settled'",
      [
        'settled: a posting belongs to another business or mode',
        'shop: the available balance is 493; its postings add up to 0',
        'shop: the fee total is 7; its postings add up to 0',
      ],
    ],
    [
      'a payment whose event is missing',
      `with gone as (delete from outbox where subject_id = 'unsettled' returning event_id)
        delete from event_log where event_id in (select event_id from gone)`,
      [
        'shop: its running sums differ from the sums of its sequenced events',
        'unsettled: is SUCCESS; it has 0 PAYMENT_NOTIFICATION and 0 PAYMENT_REVERSED events',
      ],
    ],
    [
      'an event whose content is missing',
      "delete from outbox where subject_id = 'unsettled'",
      [
        'shop: its running sums differ from the sums of its sequenced events',
        'shop: the event with sequence number 5 has no content',
        'unsettled: is SUCCESS; it has 0 PAYMENT_NOTIFICATION and 0 PAYMENT_REVERSED events',
      ],
    ],
    [
      'a reversal whose event is missing',
      "update outbox set kind = 'PAYMENT_FORGOTTEN' where subject_id = 'reversed' and kind = 'PAYMENT_REVERSED'",
      ['reversed: is REVERSED; it has 1 PAYMENT_NOTIFICATION and 0 PAYMENT_REVERSED events'],
    ],
    [
      'a changed amount of an event',
      "update outbox set pending_minor = 501 where subject_id = 'settled'",
      [
        'settled: the event with sequence number 1 changes the pending, available and fee totals by 501, 0, 0 instead of 500, 0, 0',
        'shop: its running sums differ from the sums of its sequenced events',
      ],
    ],
    [
      'an event of another subject',
      "update outbox set subject_id = 'settled' where subject_id = 'unsettled'",
      [
        'settled: is SUCCESS; it has 2 PAYMENT_NOTIFICATION and 0 PAYMENT_REVERSED events',
        'settled: the event with sequence number 5 states the transaction unsettled instead of settled',
        'unsettled: is SUCCESS; it has 0 PAYMENT_NOTIFICATION and 0 PAYMENT_REVERSED events',
      ],
    ],
    [
      'an event of an unknown subject',
      "update outbox set subject_id = 'txn_none' where subject_id = 'unsettled'",
      [
        'txn_none: the event with sequence number 5 refers to no transaction of this business and mode',
        'unsettled: is SUCCESS; it has 0 PAYMENT_NOTIFICATION and 0 PAYMENT_REVERSED events',
      ],
    ],
    [
      'an event of another business',
      "update outbox set business_id = 'biz_other' where subject_id = 'unsettled'",
      ['unsettled: the event with sequence number 5 belongs to another business or mode'],
    ],
    [
      'an event whose payload cannot be read',
      `update outbox set payload = '\\xff' where subject_id = 'unsettled'`,
      ['unsettled: the event with sequence number 5 has a payload that describes no payment'],
    ],
    [
      'a successful payment that a completed settlement skipped',
      "delete from ledger_posting where transaction_id = 'settled' and kind <> 'payment'",
      [
        'settled: is SUCCESS and not settled; stl_first skipped it',
        'stl_first: records 2 transactions, gross 1000, fees 14; its postings add up to 1 transactions, gross 500, fees 7',
        'shop: the available balance is 493; its postings add up to 0',
        'shop: the fee total is 7; its postings add up to 0',
        'shop: the pending balance is 500; its postings add up to 1000',
      ],
    ],
    [
      'a fee that the terms of the settlement do not give',
      "update ledger_posting set amount_minor = 6 where transaction_id = 'settled' and kind = 'fee'",
      [
        'settled: its fee is 6; the terms of stl_first give 7',
        'stl_first: records 2 transactions, gross 1000, fees 14; its postings add up to 2 transactions, gross 1000, fees 13',
        'shop: the available balance is 493; its postings add up to 494',
        'shop: the fee total is 7; its postings add up to 6',
      ],
    ],
    [
      'postings without a transaction',
      `insert into ledger_posting select (jsonb_populate_record(p, '{"transaction_id": "txn_none"}')).*
        from ledger_posting p where transaction_id = 'unsettled'`,
      ['txn_none: has postings, but the transaction does not exist'],
    ],
    [
      'postings of an unknown settlement',
      "update ledger_posting set settlement_id = 'stl_none' where settlement_id = 'stl_first'",
      [
        'stl_first: records 2 transactions, gross 1000, fees 14; its postings add up to 0 transactions, gross 0, fees 0',
        'stl_none: has postings, but the settlement does not exist',
      ],
    ],
    [
      'a changed share',
      "update ledger_posting set amount_minor = 99 where transaction_id = 'shared' and kind = 'share_1'",
      [
        'stl_split: partner has SHARE_SETTLED events of 100; its postings add up to 99',
        'partner: the available balance is 100; its postings add up to 99',
        'shared: its shares are {"share_1": ["partner", 99]}; its account gives {"share_1": ["partner", 100]}',
        'shared: splits 100; its shares add up to 99',
      ],
    ],
    [
      'a share of another business',
      "update ledger_posting set business_id = 'shop' where transaction_id = 'shared' and kind = 'share_1'",
      [
        'stl_split: partner has SHARE_SETTLED events of 100; its postings add up to 0',
        'stl_split: shop has SHARE_SETTLED events of 0; its postings add up to 100',
        'partner: the available balance is 100; its postings add up to 0',
        'shared: its shares are {"share_1": ["shop", 100]}; its account gives {"share_1": ["partner", 100]}',
        'shop: the available balance is 493; its postings add up to 593',
      ],
    ],
  ])('%s', async (_what, change, found) => {
    const changed = await findAfter(async (pool) => {
      expect((await pool.query(toIds(change))).rowCount).toBeGreaterThan(0)
    })
    expect(changed.toSorted()).toEqual(found.toSorted())
  })

  test.each([
    ['amountMinor', 501n, 'the amount 501 instead of 500'],
    ['sessionId', 'other', 'the session other instead of '],
    ['businessId', 'biz_other', 'the business biz_other instead of shop'],
  ])('a changed %s in the payload of an event', async (field, value, problem) => {
    const payload = await payloadWith(field, value)
    const found = await findAfter((pool) =>
      pool.query('update outbox set payload = $2 where subject_id = $1 and kind = $3', [
        ids['settled'],
        payload,
        'PAYMENT_NOTIFICATION',
      ]),
    )
    const at = 'settled: the event with sequence number 1 states'
    expect(found).toEqual([expect.stringContaining(`${at} ${problem}`)])
  })

  test('a changed amount of an archived event', async () => {
    const found = await findAfter(async (pool) => {
      await pool.query('update event_retention set floor = (select position from sequencer)')
      expect(await archiveEvents(pool, 1_000)).toBeGreaterThan(0)
      expect(await findDiscrepancies(pool)).toEqual([])
      await pool.query(
        toIds("update archived_entry set pending_minor = 501 where subject_id = 'settled'"),
      )
    })
    expect(found).toContain(
      'settled: the event with sequence number 1 changes the pending, available and fee totals by 501, 0, 0 instead of 500, 0, 0',
    )
  })
})

test('a verification reports nothing while payments are recorded, settled and reversed', async () => {
  const { id, accountNumber } = await insertPayingBusiness()
  await pay(accountNumber, 'first')
  await sequence(instance.durablePool)
  let step = 0
  const found: unknown[] = []
  for await (const { discrepancies } of verifyLedger(instance.durablePool, verifyPayouts)) {
    found.push(...discrepancies)
    step += 1
    const transactionId = await pay(accountNumber, `${step}`)
    await sequence(instance.durablePool)
    if (step % 2 === 0) await instance.settleNow(id)
    if (step % 3 === 0) await instance.reverse(transactionId)
  }
  expect(step).toBeGreaterThan(3)
  expect(found).toEqual([])
})

/** Verifies from a cursor. @returns the progress, up to the first that `until` accepts */
async function verifyFrom(cursor: string, until = (_: Verification) => false) {
  const progress: Verification[] = []
  for await (const each of verifyLedger(db.database.durablePool, verifyPayouts, cursor)) {
    progress.push(each)
    if (until(each)) break
  }
  return { progress, last: progress.at(-1)! }
}

describe('a verification continues', () => {
  test('with the next business after an interruption, in another transaction', async () => {
    const { progress, last: all } = await verifyFrom('')
    const cursors = [...new Set(progress.map(({ cursor }) => cursor))]
    expect(cursors.length).toBeGreaterThan(2)
    const { length } = cursors[1]!
    const { last: interrupted } = await verifyFrom('', ({ cursor }) => cursor.length === length)
    const { progress: rest, last } = await verifyFrom(interrupted.cursor)
    expect(last.completed).toBe(true)
    expect(rest.length).toBeLessThan(progress.length)
    expect(last.transactions).toBeLessThan(all.transactions)
    expect(last.transactions).toBeGreaterThan(0)
  })

  test.each(['x', 'e30', Buffer.from('["1","-1"]').toString('base64url')])(
    'from no other cursor: %s',
    async (cursor) => {
      await expect(verifyFrom(cursor)).rejects.toMatchObject({
        reason: 'validation_failed',
        fields: [{ field: 'from', message: 'is not a cursor of a verification' }],
      })
    },
  )

  test('with what was written since a completed one began', async () => {
    const { durablePool } = db.database
    const spoil = (id: string) =>
      tamper(durablePool, "update outbox set payload = '\\xff' where subject_id = $1", [id])
    await tamper(durablePool, "update event_log set logged_at = logged_at - interval '1 day'")
    const { last: first } = await verifyFrom('')
    expect(first).toMatchObject({ completed: true, discrepancyCount: 0 })
    await spoil(ids['unsettled']!)
    clock.set(Date.now())
    const { accountNumber } = await insertPayingBusiness()
    const [good, bad] = [await pay(accountNumber, 'good'), await pay(accountNumber, 'bad')]
    await sequence(durablePool)
    await spoil(bad)
    const { last, progress } = await verifyFrom(first.cursor)
    expect(progress.flatMap(({ discrepancies }) => discrepancies)).toEqual([
      { subject: bad, problem: expect.stringContaining('has a payload') },
    ])
    expect(last).toMatchObject({ completed: true, transactions: [good, bad].length })
    // A complete verification still finds what changed before.
    const all = (await findDiscrepancies(durablePool)).map(toNames)
    expect(all).toContainEqual(expect.stringContaining('unsettled'))
  })
})
