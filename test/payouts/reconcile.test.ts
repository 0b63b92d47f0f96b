import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Timestamp, timestampFromMs } from '@bufbuild/protobuf/wkt'
import { ConnectError } from '@connectrpc/connect'
import { afterAll, describe, expect, test } from 'vitest'
import { ErrorInfoSchema } from '../../gen/google/rpc/error_details_pb.ts'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import {
  OutgoingState,
  type PayoutDiscrepancy,
  PayoutDiscrepancyKind,
} from '../../gen/inflow/payout/v1/payout_discrepancy_pb.ts'
import { type Payout, PayoutStatus } from '../../gen/inflow/payout/v1/payout_pb.ts'
import { PayoutService } from '../../gen/inflow/payout/v1/payout_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { startFakeSafeHaven } from '../../src/banks/safehaven/fake/safehaven.ts'
import { HOUR_MS } from '../../src/core/durations.ts'
import { runHere, temporaryFolder } from '../cli/run-inflow.ts'
import { fresh, nameOf, openAccount, pay, settleAll } from '../overview/scene.ts'
import { ADMIN_TOKEN, useService } from '../support/service.ts'
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

/** Requests a payout and waits for a status. */
async function send(...statuses: PayoutStatus[]): Promise<Payout> {
  const business = await service.business()
  await pay(service, await openAccount(service, business.id), 1_000_000n)
  await settleAll(service, business.id, 1n)
  const businessId = business.id
  const { resolution } = await payouts().resolveAccountName({ businessId, ...ADA })
  const { payout } = await payouts().createPayout({
    ...{ businessId, reference: fresh('payout'), amountMinor: 400_000n, beneficiary: ADA },
    resolution,
  })
  return until(payout!.id, ...statuses)
}

async function until(payoutId: string, ...statuses: PayoutStatus[]): Promise<Payout> {
  let found: Payout | undefined
  await waitUntil(async () => {
    found = (await payouts().getPayout({ payoutId })).payout
    return found !== undefined && statuses.includes(found.status)
  })
  return found!
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
      text: expect.stringContaining('none of Inflow'),
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
    const unknown = await send(PayoutStatus.UNKNOWN)
    await delay(unknown)
    bank.faults.add('status', '500')
    expect(await reconcile()).toMatchObject({ asked: 1 })
    await waitUntil(async () =>
      (await payouts().getPayout({ payoutId: unknown.id })).payout!.detail.includes('500'),
    )
    expect((await until(unknown.id, PayoutStatus.UNKNOWN)).sessionId).toBe('')
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
    bank.faults.add('transfers', '500')
    const error = await reconcile().catch(ConnectError.from)
    expect(error).toBeInstanceOf(ConnectError)
    const [detail] = (error as ConnectError).findDetails(ErrorInfoSchema)
    expect(detail?.reason).toBe('bank_unavailable')
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
    const env = { INFLOW_GRPC_URL: service.grpcUrl, INFLOW_TOKEN: ADMIN_TOKEN }
    const run = ['payout', 'reconcile', '--bank', 'SAFEHAVEN', '--file', file]
    const { code, stdout } = await runHere(run, env)
    expect([code, stdout]).toEqual([1, expect.stringMatching(/^2 lines, 1 matched, .* 1 new/)])
    expect(stdout).toContain('MISSING_HERE')
    expect((await runHere(run, env)).code).toBe(0)
  })

  test('are required of a bank that cannot list what it sent', async () => {
    const request = { bank: Bank.BANK_9PSB, from: at(-HOUR_MS), to: at(0) }
    const error = await payouts().reconcilePayouts(request).catch(ConnectError.from)
    expect((error as ConnectError).message).toContain('lines')
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
