import { describe, expect, it } from 'vitest'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { PayoutStatus } from '../../gen/inflow/payout/v1/payout_pb.ts'
import { PayoutService } from '../../gen/inflow/payout/v1/payout_service_pb.ts'
import { nuban } from '../../src/banks/nuban.ts'
import { simulatedName } from '../../src/banks/sandbox.ts'
import type { Payout } from '../../src/payouts/payout.ts'
import { changePayouts, findPayout } from '../../src/payouts/store.ts'
import { fresh } from '../overview/scene.ts'
import { useService } from '../support/service.ts'
import { waitUntil } from '../support/wait-for.ts'
import { createPayoutScene, reasonOf } from './scene.ts'

const service = useService()
const { payouts, funded } = createPayoutScene(service)

const accountNumber = nuban('058', 145_700_001)
const beneficiary = { bankCode: '058', accountNumber, accountName: simulatedName(accountNumber) }

async function request(businessId: string, amountMinor = 10_000n) {
  const { payout } = await payouts().createPayout({
    businessId,
    reference: fresh('p'),
    amountMinor,
    beneficiary,
  })
  return payout!.id
}

async function batchOf(businessId: string, count: number) {
  const items = Array.from({ length: count }, () => {
    return { reference: fresh('item'), amountMinor: 10_000n, beneficiary }
  })
  const { batch } = await payouts().createPayouts({ businessId, reference: fresh('b'), items })
  const named = { businessId, batchId: batch!.id }
  await waitUntil(async () => (await payouts().getBatch(named)).batch?.pendingCount === 0)
  return named
}

describe('approvals that arrive together', () => {
  it('are decided one by one, each with its entry in the audit log', async () => {
    const businessId = await funded(undefined, { approvalAboveMinor: 0n })
    const admin = service.client(AdminService)
    const scopes = ['payouts:approve', 'payouts:write']
    const [ada, obi] = await Promise.all(
      ['ada', 'obi'].map(async (name) => (await admin.issueToken({ name, scopes })).secret),
    )
    const [byAda, byObi] = [ada!, obi!].map((secret) => service.client(PayoutService, secret))
    const ids = await Promise.all(Array.from({ length: 5 }, () => request(businessId)))
    const own = (
      await byAda!.createPayout({
        businessId,
        reference: fresh('own'),
        amountMinor: 10_000n,
        beneficiary,
      })
    ).payout!.id
    const [first] = ids
    const approvals = [
      ...ids.map((payoutId) => byAda!.approvePayout({ payoutId })),
      byAda!.approvePayout({ payoutId: first! }),
      byAda!.approvePayout({ payoutId: own }),
      byAda!.approvePayout({ payoutId: 'pay_unknown' }),
      byObi!.approvePayout({ payoutId: own }),
    ]
    expect(await Promise.all(approvals.map(reasonOf))).toEqual([
      ...Array(6).fill('accepted'),
      'own_payout',
      'not_found',
      'accepted',
    ])
    await waitUntil(async () => {
      const { payouts: all } = await payouts().listPayouts({ businessId })
      return all.length === 6 && all.every(({ status }) => status === PayoutStatus.PAID)
    })
    const { entries } = await admin.listAuditEntries({ businessId, action: 'payout.approve' })
    expect(entries.map(({ targetId }) => targetId).sort()).toEqual([...ids, own].sort())
    for await (const { firstBreak } of admin.verifyAudit({})) expect(firstBreak).toBeUndefined()
  })
})

describe('payouts of one batch', () => {
  it('count for the limit of the day of the next', async () => {
    const businessId = await funded(undefined, { dailyMaxMinor: 25_000n })
    const { batch, refused } = await payouts().getBatch(await batchOf(businessId, 3))
    expect(batch).toMatchObject({ count: 3, refusedCount: 1 })
    expect(refused).toMatchObject([{ reason: 'validation_failed' }])
  })

  it('count for what a new beneficiary may get without an approval', async () => {
    const businessId = await funded(undefined, {
      coolDownHours: 24,
      newBeneficiaryMaxMinor: 25_000n,
    })
    const { batch } = await payouts().getBatch(await batchOf(businessId, 3))
    expect(batch).toMatchObject({ refusedCount: 0, approvalCount: 1 })
  })
})

describe('changes that are written together', () => {
  it('are made if the payout is as it was read, and each gives back its own money', async () => {
    const businessId = await funded(undefined, { approvalAboveMinor: 0n })
    const { durablePool } = service.database
    const requestedToday = async () => {
      const { rows } = await durablePool.query<{ minor: string }>(
        'select requested_minor as minor from payout_day where business_id = $1',
        [businessId],
      )
      return rows.map(({ minor }) => minor)
    }
    const read = async (amountMinor: bigint) =>
      (await findPayout(durablePool, await request(businessId, amountMinor))) as Payout
    const [a, b, c] = [await read(10_000n), await read(20_000n), await read(40_000n)]
    expect(await requestedToday()).toEqual(['70000'])
    const change = { status: 'CANCELLED', step: 'cancelled' } as const
    const changed = await changePayouts(
      durablePool,
      [
        { before: c, change },
        { before: { ...b, claims: b.claims + 1 }, change },
        { before: a, change },
      ],
      Date.now(),
    )
    expect(changed.map((after) => after?.id)).toEqual([c.id, undefined, a.id])
    expect(await requestedToday()).toEqual(['20000'])
    const statuses = await Promise.all(
      [a, b, c].map(async ({ id }) => (await findPayout(durablePool, id))?.status),
    )
    expect(statuses).toEqual(['CANCELLED', 'PENDING_APPROVAL', 'CANCELLED'])
    const illegal = { status: 'PAID' } as const
    const refused = changePayouts(
      durablePool,
      [
        { before: b, change },
        { before: changed[2]!, change: illegal },
      ],
      Date.now(),
    )
    await expect(refused).rejects.toThrow('a payout cannot go from')
    expect((await findPayout(durablePool, b.id))?.status).toBe('PENDING_APPROVAL')
  })
})
