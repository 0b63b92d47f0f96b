import { afterAll, expect, onTestFinished, test } from 'vitest'
import { PauseScope, PayoutStatus } from '../../gen/inflow/payout/v1/payout_pb.ts'
import { PayoutDecision, PayoutService } from '../../gen/inflow/payout/v1/payout_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { startFakeSafeHaven } from '../../src/banks/safehaven/fake/safehaven.ts'
import { fresh } from '../overview/scene.ts'
import { safeHavenLive } from '../support/live-banks.ts'
import { issueToken, useService } from '../support/service.ts'
import { waitUntil } from '../support/wait-for.ts'
import { createPayoutScene, reasonOf } from './scene.ts'

const bank = await startFakeSafeHaven({ port: 0 })
afterAll(() => bank.close())
const service = useService({ BANKS: 'SAFEHAVEN=live', ...safeHavenLive(bank) })
const { payouts, funded, request, until } = createPayoutScene(service)

/** An account at Safe Haven, so that Safe Haven sends what is paid to it. */
const ADA = { bankCode: '090286', accountNumber: '0119536399', accountName: '' }

/** A payout of 4,000 naira of a business that has 10,000. The bank never saw it, as it stated after its window. */
async function lost() {
  const businessId = await funded()
  bank.faults.add('transfer', 'cut')
  const { id: payoutId, bankReference } = await request(businessId, undefined, ADA)
  await until(payoutId, PayoutStatus.UNKNOWN)
  const { durablePool } = service.database
  await durablePool.query("update payout_sender set began_at = now() - interval '20 minutes'")
  await durablePool.query(
    `update payout set submitted_at = now() - interval '20 minutes', next_at = now() where id = $1`,
    [payoutId],
  )
  await until(payoutId, PayoutStatus.MANUAL_REVIEW)
  return { businessId, payoutId, bankReference }
}

const resend = (payoutId: string) =>
  payouts().resolvePayout({ payoutId, decision: PayoutDecision.RESEND, note: 'not in their books' })

test('what a bank has paid since its float was read counts as spent', async () => {
  const { floatMinor } = bank.outgoing
  const { durablePool } = service.database
  const read = async (availableMinor: bigint) => {
    bank.outgoing.floatMinor = availableMinor
    await durablePool.query("update bank_float set next_at = '-infinity' where live")
    await waitUntil(async () => {
      const { floats } = await payouts().getFloat({})
      return floats.some((float) => float.availableMinor === availableMinor)
    })
  }
  onTestFinished(() => read(floatMinor))
  const businessId = await funded(2_000_000n)
  await read(1_000_000n)
  // The bank does not state it for a while. Simulated banks have enough.
  await durablePool.query("update bank_float set next_at = now() + interval '29 s'")
  const banks: Bank[] = []
  for (let count = 0; count < 3; count++) {
    const { id } = await request(businessId, undefined, ADA)
    banks.push((await until(id, PayoutStatus.PAID, PayoutStatus.FAILED)).bank)
  }
  expect(banks.slice(0, 2)).toEqual([Bank.BANK_SAFEHAVEN, Bank.BANK_SAFEHAVEN])
  expect(banks[2]).not.toBe(Bank.BANK_SAFEHAVEN)
})

test('a payout that is sent again is paid once, under the same reference', async () => {
  const { payoutId, bankReference } = await lost()
  await resend(payoutId)
  await until(payoutId, PayoutStatus.PAID)
  expect(bank.outgoing.transfers.get(bankReference)?.debits).toBe(1)
})

test('a payout that is to be sent again, and whose bank never sends it, is decided after the bank was asked', async () => {
  const { businessId, payoutId, bankReference } = await lost()
  const target = { scope: PauseScope.BANK, bank: Bank.BANK_SAFEHAVEN }
  await payouts().pausePayouts({ ...target, reason: 'it is given up' })
  onTestFinished(async () => void (await payouts().resumePayouts(target)))
  await resend(payoutId)
  const decide = (decision: PayoutDecision, id = payoutId) =>
    payouts().resolvePayout({ payoutId: id, decision, note: 'the books' })
  expect(await reasonOf(payouts().cancelPayout({ payoutId }))).toBe('payout_not_pending')
  const { payout } = await decide(PayoutDecision.ASK_AGAIN)
  expect(payout).toMatchObject({ status: PayoutStatus.UNKNOWN, bank: Bank.BANK_SAFEHAVEN })
  await until(payoutId, PayoutStatus.MANUAL_REVIEW)
  expect(await reasonOf(decide(PayoutDecision.MARK_FAILED))).toBe('own_payout')
  const { secret } = await issueToken(service, ['payouts:approve'])
  const failed = { payoutId, decision: PayoutDecision.MARK_FAILED, note: 'the books' }
  await service.client(PayoutService, secret).resolvePayout(failed)
  const { balance } = await service.client(SettlementService).getBalance({ businessId })
  expect(balance).toMatchObject({ availableMinor: 1_000_000n, reservedMinor: 0n })
  expect(bank.outgoing.transfers.get(bankReference)).toBeUndefined()
  // One that was never sent is cancelled instead.
  const all = { scope: PauseScope.GLOBAL }
  await payouts().pausePayouts({ ...all, reason: 'drill' })
  onTestFinished(async () => void (await payouts().resumePayouts(all)))
  const { id: unsentId } = await request(businessId, 100n, ADA)
  const asked = decide(PayoutDecision.ASK_AGAIN, unsentId)
  expect(await reasonOf(asked)).toBe('payout_not_pending')
  await payouts().cancelPayout({ payoutId: unsentId })
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

test('a name is the same if a bank writes a letter with its accent as two characters', async () => {
  const businessId = await funded()
  const { nameOf } = bank.outgoing
  onTestFinished(() => {
    bank.outgoing.nameOf = nameOf
  })
  bank.outgoing.nameOf = () => 'AD\u00c9'
  const target = { scope: PauseScope.GLOBAL }
  await payouts().pausePayouts({ ...target, reason: 'drill' })
  const beneficiary = { ...ADA, accountName: 'Ade\u0301' }
  const { payout } = await payouts().createPayout({
    businessId,
    reference: fresh('payout'),
    amountMinor: 400_000n,
    beneficiary,
  })
  // Another bank stated the name, so the one that sends it is asked again.
  bank.outgoing.nameOf = () => 'ADE\u0301'
  await service.database.durablePool.query(
    "update payout set resolved_bank = 'PROVIDUS' where id = $1",
    [payout!.id],
  )
  await payouts().resumePayouts(target)
  const sent = await until(payout!.id, PayoutStatus.PAID, PayoutStatus.FAILED)
  expect(sent).toMatchObject({ status: PayoutStatus.PAID, detail: '' })
})

test('a payout that cannot be sent is tried less and less often, and its history names the cause once', async () => {
  const businessId = await funded()
  const target = { scope: PauseScope.GLOBAL }
  await payouts().pausePayouts({ ...target, reason: 'drill' })
  const { id: payoutId } = await request(businessId, undefined, ADA)
  const { durablePool } = service.database
  await durablePool.query(`create table wait (attempts int, seconds float8);
    create function note_wait() returns trigger language plpgsql as $$ begin
      insert into wait values (new.attempts, date_part('epoch', new.next_at - now())); return new; end $$;
    create trigger note_wait after update on payout for each row
      when (new.id = '${payoutId}' and new.attempts > old.attempts) execute function note_wait()`)
  // Another bank stated the name, so the one that sends it is asked again, which does not respond.
  await durablePool.query("update payout set resolved_bank = 'PROVIDUS' where id = $1", [payoutId])
  bank.faults.add('enquiry', 'cut', 4)
  await payouts().resumePayouts(target)
  const attempted = (attempts: number) =>
    waitUntil(async () => {
      const { rows } = await durablePool.query<{ seconds: number }>(
        'select seconds from wait where attempts = $1',
        [attempts],
      )
      return rows[0]?.seconds
    })
  const hurry = () =>
    durablePool.query("update payout set next_at = now() where id = $1 and status = 'APPROVED'", [
      payoutId,
    ])
  /** It waits for something else, as while the breaker of the bank is open. */
  const waitsMeanwhile = async () => {
    await payouts().pausePayouts({ ...target, reason: 'drill' })
    await hurry()
    await waitUntil(async () => {
      const { detail } = (await payouts().getPayout({ payoutId })).payout!
      return /^SAFEHAVEN: .*; waits: all payouts are paused$/.test(detail)
    })
    await payouts().resumePayouts(target)
  }
  const waits: number[] = []
  for (const attempts of [1, 2, 3, 4]) {
    waits.push((await attempted(attempts))!)
    if (attempts === 2) await waitsMeanwhile()
    await hurry()
  }
  expect(waits[3]! > waits[0]! + 10).toBe(true)
  await until(payoutId, PayoutStatus.PAID)
  const { steps } = await payouts().getPayout({ payoutId })
  expect(steps.filter(({ text }) => text.startsWith('nothing was sent'))).toHaveLength(1)
  expect(steps.filter(({ text }) => text.startsWith('sent through'))).toHaveLength(1)
  await durablePool.query(
    `insert into payout_step (payout_id, number, at, status, actor, text)
      select $1, number, now(), 'PAID', '', 'step ' || number from generate_series($2::int, 300) number`,
    [payoutId, steps.length + 1],
  )
  const { steps: newest } = await payouts().getPayout({ payoutId })
  expect([newest.length, newest[0]?.text, newest.at(-1)?.text]).toEqual([
    200,
    'step 101',
    'step 300',
  ])
})

test('a float that cannot be stored is an error, and payouts are sent', async () => {
  const { floatMinor } = bank.outgoing
  onTestFinished(() => {
    bank.outgoing.floatMinor = floatMinor
  })
  bank.outgoing.floatMinor = 10n ** 30n
  await service.database.durablePool.query("update bank_float set next_at = '-infinity' where live")
  await waitUntil(async () => {
    const { floats } = await payouts().getFloat({})
    return floats.some(({ error }) => error === 'the bank states an amount that is too large')
  })
  const { payoutId } = await lost()
  await resend(payoutId)
  await until(payoutId, PayoutStatus.PAID)
})
