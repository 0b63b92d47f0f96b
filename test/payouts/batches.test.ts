import { ConnectError } from '@connectrpc/connect'
import { describe, expect, it, test } from 'vitest'
import { BadRequestSchema, ErrorInfoSchema } from '../../gen/google/rpc/error_details_pb.ts'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { PayoutStatus } from '../../gen/inflow/payout/v1/payout_pb.ts'
import { PayoutService } from '../../gen/inflow/payout/v1/payout_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { nuban } from '../../src/banks/nuban.ts'
import { MAGIC_ACCOUNTS } from '../../src/banks/sandbox.ts'
import { fresh, openAccount, pay, settleAll } from '../overview/scene.ts'
import { useService } from '../support/service.ts'
import { waitUntil } from '../support/wait-for.ts'

const service = useService()
const payouts = () => service.client(PayoutService)

const accountNumber = (serial: number | string) => nuban('058', Number(serial))

/** The name of an account as the bank states it. */
async function nameOf(businessId: string, number: string): Promise<string> {
  const account = { businessId, bankCode: '058', accountNumber: number }
  return (await payouts().resolveAccountName(account)).beneficiary!.accountName
}

async function funded(availableMinor: bigint): Promise<string> {
  const { id } = await service.business()
  await pay(service, await openAccount(service, id), availableMinor)
  await settleAll(service, id, 1n)
  return id
}

/** Items of 100 naira each to accounts with the right names. */
async function itemsOf(businessId: string, count: number) {
  return Promise.all(
    Array.from({ length: count }, async (_, index) => {
      const number = accountNumber(145_700_001 + index)
      const accountName = await nameOf(businessId, number)
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

const faultOf = (call: Promise<unknown>) =>
  call.then(
    () => undefined,
    (error) => ConnectError.from(error),
  )
const reasonOf = async (call: Promise<unknown>) =>
  (await faultOf(call))?.findDetails(ErrorInfoSchema)[0]?.reason
const fieldsOf = async (call: Promise<unknown>) =>
  (await faultOf(call))
    ?.findDetails(BadRequestSchema)
    .flatMap(({ fieldViolations }) => fieldViolations.map(({ field }) => field))

const availableOf = async (businessId: string) =>
  (await service.client(SettlementService).getBalance({ businessId })).balance?.availableMinor

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
    const items = await itemsOf(businessId, 4)
    items[1]!.reference = items[0]!.reference
    items[2]!.beneficiary.bankCode = '999'
    items[3]!.reference = 'settlement:stl_1'
    const call = payouts().createPayouts({ businessId, reference: fresh('batch'), items })
    expect(await fieldsOf(call)).toEqual([
      'items[1].reference',
      'items[2].beneficiary.bankCode',
      'items[3].reference',
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
  const { secret } = await service
    .client(AdminService)
    .issueToken({ name: 'approver', scopes: ['payouts:approve'] })
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
