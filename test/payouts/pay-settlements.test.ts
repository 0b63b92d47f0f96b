import { describe, expect, it, test } from 'vitest'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { type Payout, PayoutPurpose, PayoutStatus } from '../../gen/inflow/payout/v1/payout_pb.ts'
import { PayoutDecision, PayoutService } from '../../gen/inflow/payout/v1/payout_service_pb.ts'
import { SessionService } from '../../gen/inflow/session/v1/session_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { MAGIC_ACCOUNTS } from '../../src/banks/sandbox.ts'
import { HOUR_MS } from '../../src/core/durations.ts'
import { countRefusedSettlements, payableOf } from '../../src/payouts/pay-settlements.ts'
import { openAccount, pay, settleAll } from '../overview/scene.ts'
import { issueToken, useService } from '../support/service.ts'
import { browserClient, signIn } from '../support/sign-in.ts'
import { waitUntil } from '../support/wait-for.ts'
import { ADA, accountAt, createPayoutScene, reasonOf } from './scene.ts'

const service = useService()
const { payouts, availableOf, restored } = createPayoutScene(service)

/** Settles a payment of a business with these rules. @returns the settlement's id */
async function settled(amountMinor: bigint, rules: object) {
  const { id: businessId } = await service.business()
  await payouts().updatePayoutPolicy({ policy: { businessId, ...rules } })
  await pay(service, await openAccount(service, businessId), amountMinor)
  return { businessId, settlementId: await settleAll(service, businessId, 1n) }
}

/** Settles another payment of a business. @returns the settlement's id */
async function settledOf(businessId: string): Promise<string> {
  await pay(service, await openAccount(service, businessId), 300_000n)
  return settleAll(service, businessId, 1n)
}

async function shown(settlementId: string) {
  const { settlements } = await service.client(SettlementService).listSettlements({ settlementId })
  return settlements[0]!
}

async function list(businessId: string): Promise<Payout[]> {
  return (await payouts().listPayouts({ businessId })).payouts
}

async function untilListed(businessId: string, count: number, status: PayoutStatus) {
  let found: Payout[] = []
  await waitUntil(async () => {
    found = await list(businessId)
    return found.length === count && found.every((each) => each.status === status)
  })
  return found
}

/** Lets the next look at a settlement, and the next day, begin at once. */
async function nextDay(settlementId: string) {
  const { durablePool } = service.database
  // The turn that requested the last payout stores when the next one is.
  await waitUntil(async () => {
    const text = 'select from settlement_payout where settlement_id = $1 and next_at <= now()'
    return (await durablePool.query(text, [settlementId])).rowCount === 0
  })
  await durablePool.query(
    "update payout set completed_at = completed_at - interval '1 day' where settlement_id = $1",
    [settlementId],
  )
  await durablePool.query(
    'update settlement_payout set next_at = now() where settlement_id = $1 and next_at is not null',
    [settlementId],
  )
}

const isDone = (settlementId: string) =>
  waitUntil(async () => {
    const { rows } = await service.database.durablePool.query(
      'select from settlement_payout where settlement_id = $1 and next_at is null',
      [settlementId],
    )
    return rows.length === 1
  })

describe('a settlement of a business that names an account', () => {
  it('is paid out once, less the floor and the fee', async () => {
    const rules = {
      settleTo: ADA,
      floorMinor: 100_000n,
      fees: [{ flatMinor: 2_500n }],
    }
    const { businessId, settlementId } = await settled(1_000_000n, rules)
    const [paid] = await untilListed(businessId, 1, PayoutStatus.PAID)
    expect(paid).toMatchObject({
      purpose: PayoutPurpose.SETTLEMENT,
      reference: `settlement:${settlementId}`,
      settlementId,
      amountMinor: 897_500n,
      feeMinor: 2_500n,
      approvalReason: '',
    })
    expect(await availableOf(businessId)).toBe(100_000n)
    await nextDay(settlementId)
    await isDone(settlementId)
    expect(await list(businessId)).toHaveLength(1)
  })

  it('is tried again the next day after a failure, five times in all', async () => {
    const rules = { settleTo: accountAt(MAGIC_ACCOUNTS.rejects) }
    const { businessId, settlementId } = await settled(500_000n, rules)
    for (let count = 1; count <= 5; count++) {
      const all = await untilListed(businessId, count, PayoutStatus.FAILED)
      const suffix = count === 1 ? '' : `:${count}`
      expect(all[0]?.reference).toBe(`settlement:${settlementId}${suffix}`)
      await nextDay(settlementId)
    }
    await isDone(settlementId)
    expect(await list(businessId)).toHaveLength(5)
    expect(await availableOf(businessId)).toBe(500_000n)
  })

  it('needs an approval in the day after a restore, as it may have been paid before under another id', async () => {
    await restored()
    const { businessId } = await settled(500_000n, { settleTo: ADA })
    const [waiting] = await untilListed(businessId, 1, PayoutStatus.PENDING_APPROVAL)
    await restored('null')
    expect(waiting?.approvalReason).toMatch(/^the database was restored/)
    await payouts().approvePayout({ payoutId: waiting!.id })
    await untilListed(businessId, 1, PayoutStatus.PAID)
  })

  it('needs it also if it is only requested later, and one that completes after that day does not', async () => {
    await restored()
    const settleTo = ADA
    const { businessId, settlementId } = await settled(500_000n, { settleTo, payoutMaxMinor: 100n })
    await waitUntil(async () => (await shown(settlementId)).payout?.nextAt !== undefined)
    await restored('now()')
    await payouts().updatePayoutPolicy({ policy: { businessId, settleTo } })
    await nextDay(settlementId)
    const [waiting] = await untilListed(businessId, 1, PayoutStatus.PENDING_APPROVAL)
    expect(waiting?.approvalReason).toMatch(/^the database was restored/)
    const later = await settled(500_000n, { settleTo })
    await untilListed(later.businessId, 1, PayoutStatus.PAID)
  })

  it('says that its last payout expired, was rejected or was sent back, and reports what no operator decided', async () => {
    const { durablePool } = service.database
    const counted = () => countRefusedSettlements(durablePool, Date.now() - HOUR_MS, 10)
    const before = await counted()
    const detailOf = async (settlementId: string) => (await shown(settlementId)).payout?.detail
    const rules = { settleTo: ADA }
    await restored()
    const expired = await settled(500_000n, rules)
    const [waiting] = await untilListed(expired.businessId, 1, PayoutStatus.PENDING_APPROVAL)
    const rejected = await settled(500_000n, rules)
    const [refused] = await untilListed(rejected.businessId, 1, PayoutStatus.PENDING_APPROVAL)
    await restored('null')
    const returned = await settled(500_000n, rules)
    const [paid] = await untilListed(returned.businessId, 1, PayoutStatus.PAID)
    expect(await detailOf(returned.settlementId)).toBe('')
    expect(await counted()).toBe(before)

    // The banks are asked first.
    await waitUntil(async () => {
      const { rowCount } = await durablePool.query(
        'select from payout where id = any($1) and generation > 0',
        [[waiting!.id, refused!.id]],
      )
      return rowCount === 2
    })
    await durablePool.query('update payout set expires_at = now(), next_at = now() where id = $1', [
      waiting!.id,
    ])
    await untilListed(expired.businessId, 1, PayoutStatus.EXPIRED)
    expect(await detailOf(expired.settlementId)).toBe('Its payout was not approved in time')
    await payouts().rejectPayout({ payoutId: refused!.id })
    expect(await detailOf(rejected.settlementId)).toBe('Its payout was rejected')
    const decision = PayoutDecision.MARK_RETURNED
    await payouts().resolvePayout({ payoutId: paid!.id, decision, note: 'it came back' })
    expect(await detailOf(returned.settlementId)).toMatch(/^Its payout was sent back/)
    expect(await counted()).toBe(before + 2)
  })

  it('is not paid out if nothing is above the floor', async () => {
    const rules = { settleTo: ADA, floorMinor: 500_000n }
    const { businessId, settlementId } = await settled(500_000n, rules)
    await isDone(settlementId)
    expect(await list(businessId)).toEqual([])
    const { payout } = await shown(settlementId)
    expect(payout).toMatchObject({ payoutId: '', detail: expect.stringContaining('the floor') })
    expect(payout?.nextAt).toBeUndefined()
  })

  it('says why it is not paid out and when it is tried again, and reports to operators that it is refused', async () => {
    const rules = { settleTo: ADA, payoutMaxMinor: 100n }
    const { durablePool } = service.database
    const counted = () => countRefusedSettlements(durablePool, Date.now() - HOUR_MS, 10)
    const before = await counted()
    const { businessId, settlementId } = await settled(500_000n, rules)
    const refusals = (count: number) =>
      waitUntil(async () => {
        const { rows } = await durablePool.query(
          'select from settlement_payout where settlement_id = $1 and refusals = $2',
          [settlementId, count],
        )
        return rows.length === 1
      })
    await refusals(1)
    const { secret } = await issueToken(service, ['read'], [businessId])
    for (const token of [undefined, secret]) {
      const client = service.client(SettlementService, token)
      const { settlements } = await client.listSettlements({ businessId })
      expect(settlements[0]?.payout).toMatchObject({
        payoutId: '',
        detail: 'Its amount must be at most 1.00 naira, the limit of one payout',
        nextAt: expect.anything(),
      })
    }
    expect(await counted()).toBe(before + 1)
    for (let count = 2; count <= 6; count++) {
      await nextDay(settlementId)
      await refusals(count)
    }
    await isDone(settlementId)
    expect((await shown(settlementId)).payout?.detail).toMatch(/^It was tried 5 times. The last/)
    await payouts().updatePayoutPolicy({ policy: { businessId, settleTo: rules.settleTo } })
    const next = await settledOf(businessId)
    await untilListed(businessId, 1, PayoutStatus.PAID)
    const [paid] = await list(businessId)
    expect((await shown(next)).payout).toMatchObject({ payoutId: paid?.id, detail: '' })
  })
})

test('a business cancels neither what an operator requested nor what a settlement did', async () => {
  await restored()
  const rules = { settleTo: ADA, approvalAboveMinor: 0n, floorMinor: 100_000n }
  const { businessId } = await settled(500_000n, rules)
  await untilListed(businessId, 1, PayoutStatus.PENDING_APPROVAL)
  await restored('null')
  const scopes = ['payouts']
  const { secretKey } = await service
    .client(BusinessService)
    .issueKey({ businessId, scopes, allowedCidrs: ['127.0.0.0/8'] })
  const link = { businessId, scopes: ['read', 'payouts:write'] }
  const { urlPath } = await service.client(SessionService).createPortalLink(link)
  const cookie = await signIn(service, { code: urlPath.slice(urlPath.indexOf('#') + 1) })
  const portal = browserClient(service, PayoutService, cookie)
  const create = async (client: typeof portal, reference: string) => {
    const { resolution } = await client.resolveAccountName({ businessId, ...ADA })
    return client.createPayout({
      businessId,
      reference,
      amountMinor: 100n,
      beneficiary: ADA,
      resolution,
    })
  }
  await create(payouts(), "operator's")
  const [fromOperator, fromSettlement] = await list(businessId)
  for (const { id, reference } of [fromOperator!, fromSettlement!]) {
    const { status, body } = await service.post('cancelPayout/', secretKey, { reference })
    expect([status, body.code]).toEqual([403, 'permission_denied'])
    expect(await reasonOf(portal.cancelPayout({ payoutId: id }))).toBe('permission_denied')
  }
  // A key and a portal link are the business itself.
  await create(portal, "portal's")
  const { body } = await service.post('cancelPayout/', secretKey, { reference: "portal's" })
  expect(body.data).toMatchObject({ status: 'CANCELLED' })
  const { payout } = await payouts().cancelPayout({ payoutId: fromOperator!.id })
  expect(payout?.status).toBe(PayoutStatus.CANCELLED)
})

test('a token of a business reads the rules of the business, and not those of the installation', async () => {
  const { id: businessId } = await service.business()
  const { secret } = await issueToken(service, ['read'], [businessId])
  const own = service.client(PayoutService, secret)
  expect((await own.getPayoutPolicy({ businessId })).policy?.businessId).toBe(businessId)
  expect(await reasonOf(own.getPayoutPolicy({}))).toBe('permission_denied')
  expect((await payouts().getPayoutPolicy({})).policy?.businessId).toBe('')
})

test('a bank states the name of the account when it is set', async () => {
  const { id: businessId } = await service.business()
  const settleTo = ADA
  const { policy } = await payouts().updatePayoutPolicy({ policy: { businessId, settleTo } })
  expect(policy?.settleTo?.bankCode).toBe('000013')
  expect(policy?.settleTo?.accountName).not.toBe('')
  const other = { ...settleTo, accountName: 'QUITE ANOTHER NAME' }
  const update = payouts().updatePayoutPolicy({ policy: { businessId, settleTo: other } })
  expect(await reasonOf(update)).toBe('name_mismatch')
})

test('no other payout takes the reference of a settlement', async () => {
  const { id: businessId } = await service.business()
  const request = { businessId, reference: 'settlement:stl_1', amountMinor: 1n }
  const { resolution } = await payouts().resolveAccountName({ businessId, ...ADA })
  const create = payouts().createPayout({ ...request, beneficiary: ADA, resolution })
  expect(await reasonOf(create)).toBe('validation_failed')
})

test('the payable amount leaves the floor, the fee and the duty', () => {
  const rules = { floorMinor: 10n, fees: [], chargeDuty: false }
  const payable = (net: bigint, available: bigint, more: object = {}) =>
    payableOf({ ...rules, ...more }, { netMinor: net, availableMinor: available }, '2026-11-28')
  expect(payable(100n, 1_000n)).toBe(100n)
  expect(payable(100n, 60n)).toBe(50n)
  expect(payable(100n, 10n)).toBe(0n)
  const fees = [{ upToMinor: 0n, flatMinor: 7n, basisPoints: 0, capMinor: 0n }]
  expect(payable(100n, 110n, { fees })).toBe(93n)
  expect(payable(1_000_000n, 1_000_010n, { chargeDuty: true })).toBe(995_000n)
})
