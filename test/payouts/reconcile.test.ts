import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Timestamp, timestampFromMs } from '@bufbuild/protobuf/wkt'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import {
  OutgoingState,
  type PayoutDiscrepancy,
  PayoutDiscrepancyKind,
} from '../../gen/inflow/payout/v1/payout_discrepancy_pb.ts'
import { type Payout, PayoutStatus } from '../../gen/inflow/payout/v1/payout_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { startFakeSafeHaven } from '../../src/banks/safehaven/fake/safehaven.ts'
import { createTimeText } from '../../src/core/clock.ts'
import { HOUR_MS, MINUTE_MS } from '../../src/core/durations.ts'
import { callerEnv, runHere } from '../cli/run-inflow.ts'
import { nameOf } from '../overview/scene.ts'
import { temporaryFolder } from '../support/folder.ts'
import { safeHavenLive } from '../support/live-banks.ts'
import { useService } from '../support/service.ts'
import { waitUntil } from '../support/wait-for.ts'
import { createPayoutScene, reasonOf } from './scene.ts'

const bank = await startFakeSafeHaven({ port: 0 })
afterAll(() => bank.close())
const service = useService({ BANKS: 'SAFEHAVEN=live', ...safeHavenLive(bank) })
const { payouts, funded, request, until } = createPayoutScene(service)

/** An account at Safe Haven, so that Safe Haven sends what is paid to it. */
const ADA = { bankCode: '090286', accountNumber: '0119536399', accountName: '' }

/** Requests a payout and waits for a status. */
async function send(...statuses: PayoutStatus[]): Promise<Payout> {
  const { id } = await request(await funded(), undefined, ADA)
  return until(id, ...statuses)
}

const at = (offsetMs: number): Timestamp => timestampFromMs(Date.now() + offsetMs)

const reconcile = () =>
  payouts().reconcilePayouts({ bank: Bank.BANK_SAFEHAVEN, from: at(-HOUR_MS), to: at(HOUR_MS) })

/** What is not resolved of a reference at the bank. */
async function unresolved({ bankReference }: Pick<Payout, 'bankReference'>) {
  const { discrepancies } = await payouts().listPayoutDiscrepancies({})
  return discrepancies.filter((each) => each.bankReference === bankReference).map(kindOf)
}

const kindOf = ({ kind }: PayoutDiscrepancy) => nameOf(PayoutDiscrepancyKind, kind)

/** Delays what the service does next about a payout. */
const delay = ({ id }: Payout) =>
  service.database.durablePool.query(
    "update payout set next_at = now() + interval '1 hour' where id = $1",
    [id],
  )

/** A transfer of the operator that Inflow did not order. */
function sendByHand(reference: string) {
  bank.outgoing.send({ ...ADA, reference, amountMinor: 12_300n, narration: 'by hand' }, undefined)
}

describe("the bank's list", () => {
  test('matches what was paid, and shows once what no payout has the reference of', async () => {
    const paid = await send(PayoutStatus.PAID)
    sendByHand('BY-HAND-1')
    const first = await reconcile()
    expect(first).toMatchObject({ lines: 2, matched: 1, found: 1, nextPageToken: '' })
    expect(first.discrepancies[0]).toMatchObject({
      kind: PayoutDiscrepancyKind.MISSING_HERE,
      bankReference: 'BY-HAND-1',
      amountMinor: 12_300n,
      payoutId: '',
      text: expect.stringContaining('not made by Inflow'),
    })
    expect(await reconcile()).toMatchObject({ lines: 2, matched: 1, found: 0 })
    expect(await unresolved({ bankReference: 'BY-HAND-1' })).toEqual(['MISSING_HERE'])
    expect(await unresolved(paid)).toEqual([])
    const metrics = await (await fetch(`${service.httpUrl}/metrics`)).text()
    expect(metrics).toContain('inflow_payout_discrepancies{kind="MISSING_HERE"} 1')
    expect(metrics).toContain('inflow_payouts_total{status="PAID",mode="live"} 1')
  })

  test('has the bank asked about a payout whose result is unknown, and is not believed itself', async () => {
    bank.faults.add('transfer', 'cut after')
    bank.faults.add('status', '500', 1_000)
    const unknown = await send(PayoutStatus.UNKNOWN)
    await delay(unknown)
    expect(await reconcile()).toMatchObject({ asked: 1 })
    await waitUntil(async () =>
      (await payouts().getPayout({ payoutId: unknown.id })).payout!.detail.includes('500'),
    )
    expect((await until(unknown.id, PayoutStatus.UNKNOWN)).sessionId).toBe('')
    bank.faults.clear()
    await delay(unknown)
    await reconcile()
    expect((await until(unknown.id, PayoutStatus.PAID)).sessionId).not.toBe('')
  })

  test('has a returned transfer found out', async () => {
    const paid = await send(PayoutStatus.PAID)
    bank.outgoing.finish(paid.bankReference, 'returned')
    await reconcile()
    await until(paid.id, PayoutStatus.RETURNED)
  })

  test('lacks what is paid here: an alarm, until the bank shows it', async () => {
    const paid = await send(PayoutStatus.PAID)
    const transfers = bank.outgoing.transfers as Map<string, unknown>
    const hidden = transfers.get(paid.bankReference)
    transfers.delete(paid.bankReference)
    const { discrepancies } = await reconcile()
    expect(discrepancies).toMatchObject([
      { kind: PayoutDiscrepancyKind.MISSING_AT_BANK, payoutId: paid.id, amountMinor: 400_000n },
    ])
    expect(await reconcile()).toMatchObject({ found: 0 })
    expect(await unresolved(paid)).toEqual(['MISSING_AT_BANK'])
    transfers.set(paid.bankReference, hidden)
    await reconcile()
    expect(await unresolved(paid)).toEqual([])
  })

  test('shows each transfer without reference and session once, also after another was resolved', async () => {
    const listed = bank.outgoing.transfers as Map<string, object>
    const addUnnamed = (key: string, amountMinor: bigint) => {
      sendByHand(key)
      Object.assign(listed.get(key)!, { reference: '', sessionId: '', amountMinor })
    }
    addUnnamed('UNNAMED-1', 45_600n)
    const [first, ...none] = (await reconcile()).discrepancies
    expect([first?.amountMinor, none]).toEqual([45_600n, []])
    const note = 'charges of the bank'
    await payouts().resolvePayoutDiscrepancy({ discrepancyId: first!.id, note })
    addUnnamed('UNNAMED-2', 78_900n)
    addUnnamed('UNNAMED-3', 78_901n)
    const { discrepancies } = await reconcile()
    expect(discrepancies.map(({ amountMinor }) => amountMinor).sort()).toEqual([78_900n, 78_901n])
    expect(await reconcile()).toMatchObject({ found: 0 })
    for (const key of ['UNNAMED-1', 'UNNAMED-2', 'UNNAMED-3']) listed.delete(key)
  })

  test('is compared by the command line in times of Lagos, on a machine in another zone', async () => {
    sendByHand('BY-HAND-4')
    const { format } = createTimeText('Africa/Lagos')
    const period = [
      '--from',
      format(Date.now() - MINUTE_MS),
      '--to',
      format(Date.now() + MINUTE_MS),
    ]
    const env = callerEnv(service)
    const run = await runHere(['payout', 'reconcile', '--bank', 'SAFEHAVEN', ...period], env)
    expect(run).toMatchObject({ code: 1, stdout: expect.stringContaining('BY-HAND-4') })
  })

  test('is compared at an interval by the service itself', async () => {
    sendByHand('BY-HAND-2')
    // Older than the grace period, so that the run sees it.
    Object.assign(bank.outgoing.transfers.get('BY-HAND-2')!, { atMs: Date.now() - HOUR_MS })
    const { durablePool } = service.database
    await waitUntil(async () => {
      await durablePool.query("update payout_reconciliation set next_at = '2000-01-01'")
      return (await unresolved({ bankReference: 'BY-HAND-2' })).length === 1
    })
    expect(await unresolved({ bankReference: 'BY-HAND-2' })).toEqual(['MISSING_HERE'])
  })

  test('that does not arrive is an error, and finds nothing missing', async () => {
    // More than once, because a run of the service itself may be asking for the list too.
    bank.faults.add('transfers', '500', 1_000)
    onTestFinished(() => bank.faults.clear())
    expect(await reasonOf(reconcile())).toBe('bank_unavailable')
  })
})

describe('the lines of a statement', () => {
  const lineOf = ({ bankReference, amountMinor, beneficiary }: Payout) => ({
    reference: bankReference,
    amountMinor,
    accountNumber: beneficiary!.accountNumber,
    state: OutgoingState.PAID,
  })

  test('find another amount, another result, and two transfers for one payout', async () => {
    const [larger, failed, twice] = [
      await send(PayoutStatus.PAID),
      await send(PayoutStatus.PAID),
      await send(PayoutStatus.PAID),
    ]
    const lines = [
      { ...lineOf(larger), amountMinor: 400_001n },
      { ...lineOf(failed), state: OutgoingState.FAILED },
      { ...lineOf(twice), sessionId: '1' },
      // The reference names it in any case.
      { ...lineOf(twice), reference: twice.bankReference.toLowerCase(), sessionId: '2' },
      { reference: 'FAILED-BY-HAND', amountMinor: 1n, state: OutgoingState.FAILED },
    ]
    const found = await payouts().reconcilePayouts({ bank: Bank.BANK_SAFEHAVEN, lines })
    expect(found).toMatchObject({ lines: 5, matched: 2, asked: 0, found: 3 })
    expect(found.discrepancies.map((each) => [kindOf(each), each.text])).toEqual([
      ['MISMATCHED', expect.stringContaining('NGN 4000.01 instead of 4000.00')],
      ['MISMATCHED', expect.stringContaining('it is failed there and PAID here')],
      ['PAID_TWICE', expect.stringContaining('2 transfers for the payout')],
    ])
    expect(await payouts().reconcilePayouts({ bank: Bank.BANK_SAFEHAVEN, lines })).toMatchObject({
      found: 0,
    })
  })

  test('find two transfers for one payout that name no session', async () => {
    const paid = await send(PayoutStatus.PAID)
    const charge = { ...lineOf(paid), amountMinor: 1_075n }
    const once = { bank: Bank.BANK_SAFEHAVEN, lines: [lineOf(paid)] }
    expect(await payouts().reconcilePayouts(once)).toMatchObject({ found: 0 })
    const twice = { bank: Bank.BANK_SAFEHAVEN, lines: [lineOf(paid), charge, lineOf(paid)] }
    const { discrepancies } = await payouts().reconcilePayouts(twice)
    expect(discrepancies.map(kindOf).sort()).toEqual(['MISMATCHED', 'PAID_TWICE'])
  })

  test('find a resolved difference again once they state another one', async () => {
    const paid = await send(PayoutStatus.PAID)
    const found = async (more: object) => {
      const lines = [{ ...lineOf(paid), ...more }]
      return (await payouts().reconcilePayouts({ bank: Bank.BANK_SAFEHAVEN, lines })).discrepancies
    }
    const [first] = await found({ amountMinor: 1n })
    const note = 'the wrong column of the statement'
    await payouts().resolvePayoutDiscrepancy({ discrepancyId: first!.id, note })
    expect(await found({ amountMinor: 1n })).toEqual([])
    const [again] = await found({ state: OutgoingState.FAILED })
    expect(again).toMatchObject({ id: first!.id, note: '', resolvedBy: '' })
    expect(again!.text).toContain('it is failed there and PAID here')
    expect(await found({ state: OutgoingState.FAILED })).toEqual([])
    expect(await unresolved(paid)).toEqual(['MISMATCHED'])
  })

  test('name a payout by its session if they lack our reference', async () => {
    const paid = await send(PayoutStatus.PAID)
    const { sessionId } = paid
    const lines = [{ ...lineOf(paid), reference: 'THE-BANKS-OWN', sessionId }]
    const found = await payouts().reconcilePayouts({ bank: Bank.BANK_SAFEHAVEN, lines })
    expect(found).toMatchObject({ matched: 1, found: 0 })
  })

  test('are read from a CSV file by the command line, with our reference in any text', async () => {
    const paid = await send(PayoutStatus.PAID)
    const file = join(temporaryFolder(), 'statement.csv')
    const lines = [
      'Date,Narration,Session ID,Debit,Credit,Status',
      `2026-11-20,NIP/${paid.bankReference}/rent,,"4,000.00",,SUCCESSFUL`,
      '2026-11-20,a payment that arrived,1234,,5.00,SUCCESSFUL',
      '2026-11-20,charges,5678,10.75,,SUCCESSFUL',
    ]
    writeFileSync(file, lines.join('\r\n'))
    const env = callerEnv(service)
    const run = ['payout', 'reconcile', '--bank', 'SAFEHAVEN', '--file', file]
    const { code, stdout } = await runHere(run, env)
    expect([code, stdout]).toEqual([1, expect.stringMatching(/^2 lines, 1 matched, .* 1 new/)])
    expect(stdout).toContain('MISSING_HERE')
    expect((await runHere(run, env)).code).toBe(0)
  })

  test('are required of a bank that cannot list what it sent', async () => {
    const request = { bank: Bank.BANK_9PSB, from: at(-HOUR_MS), to: at(0) }
    await expect(payouts().reconcilePayouts(request)).rejects.toThrow('lines')
  })
})

test('a difference is resolved once, with a note and its audit entry', async () => {
  sendByHand('BY-HAND-3')
  const { discrepancies } = await reconcile()
  const { id: discrepancyId } = discrepancies.find(
    ({ bankReference }) => bankReference === 'BY-HAND-3',
  )!
  const note = 'the rent, paid at the portal of the bank'
  const { discrepancy } = await payouts().resolvePayoutDiscrepancy({ discrepancyId, note })
  expect(discrepancy).toMatchObject({ note, resolvedBy: 'bootstrap' })
  await payouts().resolvePayoutDiscrepancy({ discrepancyId, note: 'again' })
  expect(await unresolved({ bankReference: 'BY-HAND-3' })).toEqual([])
  expect(await reconcile()).toMatchObject({ found: 0 })
  const { entries } = await service.client(AdminService).listAuditEntries({})
  const ofIt = entries.filter(({ targetId }) => targetId === discrepancyId)
  expect(ofIt.map(({ action }) => action)).toEqual(['payout_discrepancy.resolve'])
  expect(entries.some(({ action }) => action === 'payout_statement.reconcile')).toBe(true)
  const unknown = payouts().resolvePayoutDiscrepancy({ discrepancyId: 'pdc_1', note })
  await expect(unknown).rejects.toThrow('no such difference')
})
