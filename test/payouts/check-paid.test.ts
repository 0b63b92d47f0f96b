import { afterAll, expect, test } from 'vitest'
import { PayoutStatus } from '../../gen/inflow/payout/v1/payout_pb.ts'
import { startFakeSafeHaven } from '../../src/banks/safehaven/fake/safehaven.ts'
import { safeHavenLive } from '../support/live-banks.ts'
import { useService } from '../support/service.ts'
import { waitUntil } from '../support/wait-for.ts'
import { createPayoutScene } from './scene.ts'

const bank = await startFakeSafeHaven({ port: 0 })
afterAll(() => bank.close())
// The fault of the bank is for its next request, so no payout of another story is asked about here.
const service = useService({ BANKS: 'SAFEHAVEN=live', ...safeHavenLive(bank) })
const { payouts, funded, request, until } = createPayoutScene(service)

/** A paid payout to an account at Safe Haven, so that Safe Haven sent it. */
async function paid() {
  const account = { bankCode: '090286', accountNumber: '0119536399', accountName: '' }
  const { id: payoutId, bankReference } = await request(await funded(), undefined, account)
  await until(payoutId, PayoutStatus.PAID)
  return { payoutId, bankReference }
}

test('a payout that came back is found also if the bank does not respond to the last check', async () => {
  const { payoutId, bankReference } = await paid()
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

test('a payout whose bank never states whether it came back says so at the end', async () => {
  const { payoutId } = await paid()
  bank.faults.add('status', 'cut')
  await service.database.durablePool.query(
    "update payout set completed_at = now() - interval '15 days', next_at = now() where id = $1",
    [payoutId],
  )
  await waitUntil(async () => {
    const { steps } = await payouts().getPayout({ payoutId })
    return steps.at(-1)?.text.startsWith('the bank did not state whether it came back: ')
  })
  const { payout } = await payouts().getPayout({ payoutId })
  expect(payout?.status).toBe(PayoutStatus.PAID)
})

test('a paid payout that the bank does not know any more has it in its history', async () => {
  const { payoutId, bankReference } = await paid()
  // The fake bank's book is a Map.
  ;(bank.outgoing.transfers as Map<string, unknown>).delete(bankReference)
  const { durablePool } = service.database
  // "Not found" counts only a while after the service has begun to send.
  await durablePool.query("update payout_sender set began_at = now() - interval '20 minutes'")
  await durablePool.query(
    `update payout set submitted_at = now() - interval '1 day', completed_at = now() - interval '1 day',
        next_at = now() where id = $1`,
    [payoutId],
  )
  await waitUntil(async () => {
    const { steps } = await payouts().getPayout({ payoutId })
    return steps.at(-1)?.text.startsWith('the bank states now that it is not known')
  })
  const found = await payouts().getPayout({ payoutId })
  expect(found.payout?.status).toBe(PayoutStatus.PAID)
})
