import { expect, test } from 'vitest'
import { PayoutStatus } from '../../gen/inflow/payout/v1/payout_pb.ts'
import { useService } from '../support/service.ts'
import { ADA, createPayoutScene } from './scene.ts'

const service = useService()
const { payouts, funded, request, approver, batchOfTwo } = createPayoutScene(service)

/** A business that pays a new beneficiary so much without an approval. */
const limitedTo = (newBeneficiaryMaxMinor: bigint) =>
  funded(undefined, { coolDownHours: 24, newBeneficiaryMaxMinor })

/** Makes what a business has used so far older by two days. */
const waitTwoDays = (businessId: string) =>
  service.database.durablePool.query(
    `update payout_beneficiary set first_used_at = first_used_at - interval '2 days' where business_id = $1`,
    [businessId],
  )

test('a beneficiary stays new, however long ago a payout to it was requested and not approved', async () => {
  const businessId = await limitedTo(0n)
  const first = await request(businessId, 100n)
  await waitTwoDays(businessId)
  expect((await request(businessId, 100n)).status).toBe(PayoutStatus.PENDING_APPROVAL)
  await (await approver()).rejectPayout({ payoutId: first.id })
  await waitTwoDays(businessId)
  expect((await request(businessId, 100n)).status).toBe(PayoutStatus.PENDING_APPROVAL)
  expect((await payouts().listBeneficiaries({ businessId })).beneficiaries).toEqual([])
})

test('a beneficiary is new for a day after the approval of its first payout', async () => {
  const businessId = await limitedTo(100n)
  const first = await request(businessId, 101n)
  await (await approver()).approvePayout({ payoutId: first.id })
  const { beneficiaries } = await payouts().listBeneficiaries({ businessId })
  expect(beneficiaries.map(({ beneficiary }) => beneficiary?.accountNumber)).toEqual([
    ADA.accountNumber,
  ])
  // What was approved counts as well.
  expect((await request(businessId, 1n)).status).toBe(PayoutStatus.PENDING_APPROVAL)
  await waitTwoDays(businessId)
  expect((await request(businessId, 101n)).status).toBe(PayoutStatus.APPROVED)
})

test('a beneficiary is new for a day after the approval of the first batch that pays it, twice even', async () => {
  const businessId = await limitedTo(0n)
  const key = await batchOfTwo(businessId)
  expect((await payouts().listBeneficiaries({ businessId })).beneficiaries).toEqual([])
  await (await approver()).approveBatch(key)
  expect((await request(businessId, 1n)).status).toBe(PayoutStatus.PENDING_APPROVAL)
  await waitTwoDays(businessId)
  expect((await request(businessId, 1n)).status).toBe(PayoutStatus.APPROVED)
})

test('many small payouts to a new beneficiary do not hide the large one before them', async () => {
  const businessId = await limitedTo(100_000n)
  const { id } = await request(businessId, 99_000n)
  await service.database.durablePool.query(
    `with copied as (
        insert into payout (id, business_id, live, reference, purpose, status, source, amount_minor, fee_minor,
          duty_minor, bank_code, bank_name, account_number, account_name, narration, enquiry_reference, bank_reference,
          requested_by, approval_reason, created_at, generation)
        select id || '_' || n, business_id, live, reference || n, purpose, 'APPROVED', source, 1, 0, 0, bank_code,
          bank_name, account_number, account_name, narration, '', bank_reference || n, requested_by, '', created_at,
          generation
        from payout, generate_series(1, 1000) n where id = $1
        returning id, created_at
      )
      insert into payout_posting select id, 'reservation', 'available', 'reserved', 1, created_at from copied`,
    [id],
  )
  expect((await request(businessId, 99_000n)).status).toBe(PayoutStatus.PENDING_APPROVAL)
})
