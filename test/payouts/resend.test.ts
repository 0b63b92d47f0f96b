import { afterAll, expect, test } from 'vitest'
import { PayoutStatus } from '../../gen/inflow/payout/v1/payout_pb.ts'
import { PayoutDecision, PayoutService } from '../../gen/inflow/payout/v1/payout_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { startFakeSafeHaven } from '../../src/banks/safehaven/fake/safehaven.ts'
import { fresh, openAccount, pay, settleAll } from '../overview/scene.ts'
import { useService } from '../support/service.ts'
import { waitUntil } from '../support/wait-for.ts'

const bank = await startFakeSafeHaven({ port: 0 })
afterAll(() => bank.close())
const service = useService({
  BANKS: 'SAFEHAVEN=live',
  ...bank.environment,
  BANK_SAFEHAVEN_CALLBACK_URL: 'http://127.0.0.1:9',
  BANK_SAFEHAVEN_CALLBACK_SECRET: 'callback-secret-0123456789abcdef',
})
const payouts = () => service.client(PayoutService)

/** An account at Safe Haven, so that Safe Haven sends what is paid to it. */
const ADA = { bankCode: '090286', accountNumber: '0119536399' }

const until = (payoutId: string, ...statuses: PayoutStatus[]) =>
  waitUntil(async () => {
    const { payout } = await payouts().getPayout({ payoutId })
    return payout !== undefined && statuses.includes(payout.status)
  })

/** A payout that the bank did not respond to and never saw, as it stated after its window. */
async function lost() {
  const { id: businessId } = await service.business()
  await pay(service, await openAccount(service, businessId), 1_000_000n)
  await settleAll(service, businessId, 1n)
  bank.faults.add('transfer', 'cut')
  const { resolution } = await payouts().resolveAccountName({ businessId, ...ADA })
  const request = { businessId, reference: fresh('payout'), amountMinor: 400_000n, resolution }
  const { payout } = await payouts().createPayout({ ...request, beneficiary: ADA })
  const { id: payoutId, bankReference } = payout!
  await until(payoutId, PayoutStatus.UNKNOWN)
  await service.database.durablePool.query(
    `update payout set submitted_at = now() - interval '20 minutes', next_at = now() where id = $1`,
    [payoutId],
  )
  await until(payoutId, PayoutStatus.MANUAL_REVIEW)
  return { businessId, payoutId, bankReference }
}

const resend = (payoutId: string) =>
  payouts().resolvePayout({ payoutId, decision: PayoutDecision.RESEND, note: 'not in their books' })

test('a payout that is sent again is paid once, under the same reference', async () => {
  const { payoutId, bankReference } = await lost()
  await resend(payoutId)
  await until(payoutId, PayoutStatus.PAID)
  expect(bank.outgoing.transfers.get(bankReference)?.debits).toBe(1)
})

test.each([
  ['the bank refuses the second transfer', 'insufficient'],
  ['the account has no such name any more', 'wrong name'],
] as const)(
  'a payout that is sent again does not fail if %s: the first one may have been made',
  async (_, fault) => {
    const { businessId, payoutId } = await lost()
    if (fault === 'insufficient') bank.faults.add('transfer', fault)
    else {
      // Another bank stated the name, so the one that sends it is asked first.
      await service.database.durablePool.query(
        "update payout set resolved_bank = 'PROVIDUS' where id = $1",
        [payoutId],
      )
      bank.faults.add('enquiry', fault)
    }
    await resend(payoutId)
    await until(payoutId, PayoutStatus.UNKNOWN, PayoutStatus.FAILED)
    const { balance } = await service.client(SettlementService).getBalance({ businessId })
    expect(balance).toMatchObject({ availableMinor: 600_000n, reservedMinor: 400_000n })
  },
)

test('a payout that came back is found also if the bank does not respond to the last check', async () => {
  const { id: businessId } = await service.business()
  await pay(service, await openAccount(service, businessId), 1_000_000n)
  await settleAll(service, businessId, 1n)
  const { resolution } = await payouts().resolveAccountName({ businessId, ...ADA })
  const request = { businessId, reference: fresh('payout'), amountMinor: 400_000n, resolution }
  const { payout } = await payouts().createPayout({ ...request, beneficiary: ADA })
  const { id: payoutId, bankReference } = payout!
  await until(payoutId, PayoutStatus.PAID)
  const check = (hours: number) =>
    service.database.durablePool.query(
      `update payout set completed_at = now() - $2 * interval '1 hour', next_at = now() where id = $1`,
      [payoutId, hours],
    )
  bank.faults.add('status', 'cut')
  await check(168)
  await waitUntil(async () => {
    const { rows } = await service.database.durablePool.query(
      "select next_at between now() + interval '50 minutes' and now() + interval '1 hour' as again from payout where id = $1",
      [payoutId],
    )
    return rows[0].again
  })
  bank.outgoing.transfers.get(bankReference)!.state = 'returned'
  await check(169)
  await until(payoutId, PayoutStatus.RETURNED)
})
