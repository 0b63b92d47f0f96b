import { ConnectError } from '@connectrpc/connect'
import { describe, expect, it, onTestFinished, test } from 'vitest'
import { BadRequestSchema } from '../../gen/google/rpc/error_details_pb.ts'
import { PauseScope, PayoutStatus } from '../../gen/inflow/payout/v1/payout_pb.ts'
import { PayoutService } from '../../gen/inflow/payout/v1/payout_service_pb.ts'
import { nuban } from '../../src/banks/nuban.ts'
import { MAGIC_ACCOUNTS, simulatedName } from '../../src/banks/sandbox.ts'
import { fresh } from '../overview/scene.ts'
import { issueToken, useService } from '../support/service.ts'
import { waitUntil } from '../support/wait-for.ts'
import { createPayoutScene, reasonOf } from './scene.ts'

const service = useService()
const { payouts, funded, approver, availableOf } = createPayoutScene(service)

const accountNumber = (serial: number | string) => nuban('058', Number(serial))

/** The name of an account as the bank states it. */
async function nameOf(businessId: string, number: string): Promise<string> {
  const account = { businessId, bankCode: '058', accountNumber: number }
  return (await payouts().resolveAccountName(account)).beneficiary!.accountName
}

/** Items of 100 naira each to accounts with the right names. */
async function itemsOf(businessId: string, count: number) {
  return Promise.all(
    Array.from({ length: count }, async (_, index) => {
      const number = accountNumber(145_700_001 + index)
      // So many calls at once would wait too long for a connection.
      const accountName = count > 10 ? simulatedName(number) : await nameOf(businessId, number)
      const beneficiary = { bankCode: '058', accountNumber: number, accountName }
      return { reference: fresh('item'), amountMinor: 10_000n, beneficiary }
    }),
  )
}

async function untilNamed(businessId: string, batchId: string) {
  await waitUntil(async () => {
    const { batch } = await payouts().getBatch({ businessId, batchId })
    return batch?.pendingCount === 0
  })
  return payouts().getBatch({ businessId, batchId })
}

const fieldsOf = (call: Promise<unknown>) =>
  call.then(
    () => undefined,
    (error) =>
      ConnectError.from(error)
        .findDetails(BadRequestSchema)
        .flatMap(({ fieldViolations }) => fieldViolations.map(({ field }) => field)),
  )

describe('a batch', () => {
  it('becomes payouts, each with its own result; a repeat returns the original', async () => {
    const businessId = await funded(1_000_000n)
    const items = await itemsOf(businessId, 5)
    items[1]!.beneficiary.accountName = 'QUITE ANOTHER NAME'
    items[3]!.beneficiary.accountNumber = accountNumber(MAGIC_ACCOUNTS.isUnknown)
    const request = { businessId, reference: fresh('batch'), items }
    const created = await payouts().createPayouts(request)
    expect(created).toMatchObject({ sumInWords: 'five hundred naira', replayed: false })
    const batchId = created.batch!.id
    const { batch, refused } = await untilNamed(businessId, batchId)
    expect(batch).toMatchObject({ count: 5, sumMinor: 50_000n, refusedCount: 2 })
    expect(refused.map(({ index, reason }) => [index, reason])).toEqual([
      [1, 'name_mismatch'],
      [3, 'validation_failed'],
    ])
    await waitUntil(async () => {
      const now = await payouts().getBatch({ businessId, batchId })
      return now.batch?.paidCount === 3
    })
    expect(await availableOf(businessId)).toBe(970_000n)
    const replay = await payouts().createPayouts(request)
    expect(replay).toMatchObject({ replayed: true, batch: { id: batchId } })
    const other = { ...request, items: items.slice(1) }
    expect(await reasonOf(payouts().createPayouts(other))).toBe('duplicate_reference')
    const { batches } = await payouts().listBatches({ businessId })
    expect(batches.map(({ id }) => id)).toEqual([batchId])
    expect((await payouts().listPayouts({ batchId })).payouts).toHaveLength(3)
  })

  it('with wrong items requests nothing, and names each of them', async () => {
    const businessId = await funded(1_000_000n)
    const items = await itemsOf(businessId, 5)
    items[1]!.reference = items[0]!.reference
    items[2]!.beneficiary.bankCode = '999'
    items[3]!.reference = 'settlement:stl_1'
    items[4]!.reference += ' '
    const call = payouts().createPayouts({ businessId, reference: fresh('batch'), items })
    expect(await fieldsOf(call)).toEqual([
      'items[1].reference',
      'items[2].beneficiary.bankCode',
      'items[3].reference',
      'items[4].reference',
    ])
    expect((await payouts().listBatches({ businessId })).batches).toEqual([])
  })

  it('that is only validated, or exceeds what is available, requests nothing', async () => {
    const businessId = await funded(20_000n)
    const items = await itemsOf(businessId, 3)
    const reference = fresh('batch')
    const all = payouts().createPayouts({ businessId, reference, items })
    expect(await reasonOf(all)).toBe('insufficient_balance')
    const two = { businessId, reference, items: items.slice(1), validateOnly: true }
    const { batch } = await payouts().createPayouts(two)
    expect(batch).toMatchObject({ id: '', count: 2, sumMinor: 20_000n })
    expect((await payouts().listBatches({ businessId })).batches).toEqual([])
  })
})

test('a batch needs an approval of its own where every payout does', async () => {
  const businessId = await funded(100_000n)
  await payouts().updatePayoutPolicy({ policy: { businessId, approvalAboveMinor: 0n } })
  const items = await itemsOf(businessId, 1)
  const { batch } = await payouts().createPayouts({ businessId, reference: fresh('b'), items })
  await untilNamed(businessId, batch!.id)
  const { payouts: all } = await payouts().listPayouts({ batchId: batch!.id })
  expect(all.map(({ approvalReason }) => approvalReason)).toEqual([
    'a batch of more than 0.00 naira',
  ])
})

test('a batch above the threshold is approved or rejected as a whole, by another person', async () => {
  const businessId = await funded(1_000_000n)
  await payouts().updatePayoutPolicy({ policy: { businessId, approvalAboveMinor: 20_000n } })
  const { secret } = await issueToken(service, ['payouts:approve'])
  const approver = service.client(PayoutService, secret)
  const request = async () => {
    const items = await itemsOf(businessId, 3)
    const { batch } = await payouts().createPayouts({ businessId, reference: fresh('b'), items })
    await untilNamed(businessId, batch!.id)
    return { businessId, batchId: batch!.id }
  }
  const [first, second] = [await request(), await request()]
  const { batch } = await payouts().getBatch(first)
  expect(batch).toMatchObject({ approvalCount: 3, approvalSumMinor: 30_000n })
  expect(await reasonOf(payouts().approveBatch(first))).toBe('own_payout')
  const approved = await approver.approveBatch({ ...first, note: 'salaries' })
  expect(approved).toMatchObject({ count: 3, sumMinor: 30_000n, sumInWords: 'three hundred naira' })
  await waitUntil(async () => (await payouts().getBatch(first)).batch?.paidCount === 3)
  expect(await reasonOf(approver.approveBatch(first))).toBe('payout_not_pending')
  const rejected = await approver.rejectBatch(second)
  expect(rejected).toMatchObject({ count: 3, batch: { failedCount: 3, approvalCount: 0 } })
  const { payouts: all } = await payouts().listPayouts({ batchId: second.batchId })
  expect(new Set(all.map(({ status }) => status))).toEqual(new Set([PayoutStatus.REJECTED]))
  expect(await availableOf(businessId)).toBe(970_000n)
  const unknown = approver.rejectBatch({ businessId, batchId: 'pba_unknown' })
  expect(await reasonOf(unknown)).toBe('not_found')
})

test('two batches that pay the same beneficiaries in opposite orders are approved at once', async () => {
  const businessId = await funded(20_000_000n, { approvalAboveMinor: 0n })
  const items = await itemsOf(businessId, 600)
  const created = await Promise.all(
    [items, items.toReversed()].map((each) =>
      payouts().createPayouts({
        businessId,
        reference: fresh('batch'),
        items: each.map((item) => ({ ...item, reference: fresh('item') })),
      }),
    ),
  )
  for (const { batch } of created) await untilNamed(businessId, batch!.id)
  const { approveBatch } = await approver()
  const approved = await Promise.all(
    created.map(({ batch }) => approveBatch({ businessId, batchId: batch!.id })),
  )
  expect(approved.map(({ count }) => count)).toEqual([600, 600])
})

test('a batch is rejected with the items that no bank has named yet, whatever is being named meanwhile', async () => {
  const COUNT = 500
  const businessId = await funded(BigInt(COUNT) * 10_000n)
  await payouts().updatePayoutPolicy({ policy: { businessId, approvalAboveMinor: 0n } })
  const [item] = await itemsOf(businessId, 1)
  const items = Array.from({ length: COUNT }, () => ({ ...item!, reference: fresh('item') }))
  const { batch } = await payouts().createPayouts({ businessId, reference: fresh('b'), items })
  const request = { businessId, batchId: batch!.id }
  await waitUntil(async () => (await payouts().getBatch(request)).batch!.approvalCount > 0)
  const rejected = await payouts().rejectBatch({ ...request, note: 'a stolen token' })
  expect(rejected).toMatchObject({ count: COUNT, sumMinor: BigInt(COUNT) * 10_000n })
  const { failedCount = 0, refusedCount = 0 } = rejected.batch ?? {}
  expect(failedCount + refusedCount).toBe(COUNT)
  // What was being named meanwhile comes before the item of a later batch.
  const later = { businessId, reference: fresh('b'), items: await itemsOf(businessId, 1) }
  await untilNamed(businessId, (await payouts().createPayouts(later)).batch!.id)
  const after = await payouts().getBatch(request)
  expect(after.batch).toEqual(rejected.batch)
  expect(after.refused.every(({ reason }) => reason === 'rejected')).toBe(true)
  expect(await availableOf(businessId)).toBe(BigInt(COUNT - 1) * 10_000n)
})

test('a batch is not rejected after a restore before the banks have stated that they do not know its payouts', async () => {
  const businessId = await funded(1_000_000n, { approvalAboveMinor: 0n })
  const items = await itemsOf(businessId, 2)
  const { batch } = await payouts().createPayouts({ businessId, reference: fresh('b'), items })
  const request = { businessId, batchId: batch!.id }
  await untilNamed(businessId, batch!.id)
  const generation = (value: string) =>
    service.database.durablePool.query(
      `update payout set generation = ${value} where id = (select min(id) from payout where batch_id = $1)`,
      [batch!.id],
    )
  await generation('generation - 1')
  expect(await reasonOf(payouts().rejectBatch(request))).toBe('payout_not_pending')
  expect(await availableOf(businessId)).toBe(980_000n)
  expect((await payouts().getBatch(request)).batch).toMatchObject({ approvalCount: 2 })
  // An item that waits becomes no payout meanwhile.
  await service.database.durablePool.query(
    `update payout_item set next_at = now() + interval '1 hour' where batch_id = $1 and number = 1`,
    [batch!.id],
  )
  const { count, batch: after } = await payouts().rejectBatch(request)
  expect([count, after!.pendingCount, after!.approvalCount]).toEqual([1, 0, 2])
  await generation('generation + 1')
  await payouts().rejectBatch(request)
  expect(await availableOf(businessId)).toBe(1_000_000n)
})

test('the banks are asked first about items that are older than a restore, however long they waited', async () => {
  const { durablePool } = service.database
  const businessId = await funded()
  const [item] = await itemsOf(businessId, 1)
  const client = await durablePool.connect()
  onTestFinished(() => client.release(true))
  await client.query('begin')
  await client.query('select lock_settled($1, true, false)', [businessId])
  const batch = async () => {
    const items = [{ ...item!, reference: fresh('item') }]
    const created = await payouts().createPayouts({ businessId, reference: fresh('b'), items })
    return created.batch!.id
  }
  const before = await batch()
  const target = { scope: PauseScope.BUSINESS, businessId }
  await payouts().pausePayouts({ ...target, reason: 'frozen' })
  await client.query('rollback')
  const waits = () =>
    durablePool.query(
      "select from payout_item where batch_id = $1 and next_at between now() + interval '1 s' and now() + interval '1 min'",
      [before],
    )
  await waitUntil(async () => (await waits()).rowCount === 1)
  // No instance was up for a while, so this may be an older copy; the day for callers to repeat is long over.
  await durablePool.query(
    "update payout_sender set began_at = now(), repeats_until = now() - interval '1 hour'",
  )
  onTestFinished(
    async () => void (await durablePool.query('update payout_sender set repeats_until = null')),
  )
  await payouts().resumePayouts(target)
  await durablePool.query('update payout_item set next_at = now() where batch_id = $1', [before])
  const stepsOf = async (batchId: string) => {
    await waitUntil(
      async () => (await payouts().getBatch({ businessId, batchId })).batch?.paidCount === 1,
    )
    const { rows } = await durablePool.query<{ text: string }>(
      'select s.text from payout_step s join payout p on p.id = s.payout_id where p.batch_id = $1',
      [batchId],
    )
    return rows.map(({ text }) => text)
  }
  const asked = expect.stringContaining('before the database was restored')
  expect(await stepsOf(before)).toContainEqual(asked)
  expect(await stepsOf(await batch())).not.toContainEqual(asked)
})
