import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout } from 'node:timers/promises'
import { type Client, Code, ConnectError } from '@connectrpc/connect'
import type { Pool } from 'pg'
import { PayoutDecision, PayoutService } from '../../gen/inflow/payout/v1/payout_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { BANK_FACTS } from '../../src/banks/bank.ts'
import { TRANSFER_OPERATIONS } from '../../src/banks/fake/faults.ts'
import { type FakeBanks, startFakeBanks } from '../../src/banks/fake/start-fake-banks.ts'
import type { TransferBook } from '../../src/banks/fake/transfer-book.ts'
import { nuban } from '../../src/banks/nuban.ts'
import type { Clock } from '../../src/core/clock.ts'
import { grpcClient, grpcTransport } from '../support/grpc-client.ts'
import { openBusinessOver } from '../support/opened-account.ts'
import { ADMIN_TOKEN } from '../support/service.ts'
import { waitFor, waitUntil } from '../support/wait-for.ts'

/** A fake bank with its book of transfers, and a function that makes its requests fail. */
export interface PayingBank {
  readonly code: keyof typeof BANK_FACTS
  readonly book: TransferBook
  /** @param fault as the fake bank names it */
  fail(operation: Operation, fault: string, times?: number): void
  /** How many requests of an operation it has received. */
  received(operation: Operation): number
  /** Ends all faults. */
  heal(): void
}

const OPERATIONS = ['enquire', 'send', 'find', 'float'] as const
type Operation = (typeof OPERATIONS)[number]

interface FakeApi {
  readonly faults: { add(operation: never, fault: never, times?: number): void; clear(): void }
  readonly requests: Readonly<Record<string, number>>
}

const payingBank = (
  code: PayingBank['code'],
  book: TransferBook,
  { faults, requests }: FakeApi,
  operations: readonly [enquire: string, send: string, find: string, float: string],
): PayingBank => {
  const own = (operation: Operation) => operations[OPERATIONS.indexOf(operation)]!
  return {
    code,
    book,
    fail: (operation, fault, times) => faults.add(own(operation) as never, fault as never, times),
    received: (operation) => requests[own(operation)]!,
    heal: faults.clear,
  }
}

/**
 * The four fake banks with one clock. A reference that is sent twice is debited twice.
 *
 * @returns the banks, and `atNextTransfer`: it sets a function that runs when any bank gets the next transfer, before the
 * bank books it; if the function throws, the transfer is never booked
 */
export async function startPayingBanks(clock: Clock) {
  const banks: FakeBanks = await startFakeBanks({
    port: 0,
    serviceUrl: 'http://127.0.0.1:9',
    clock,
    retryDelaysMs: [],
  })
  const { '9PSB': ninePsb, PROVIDUS: providus, PALMPAY: palmPay, SAFEHAVEN: safeHaven } = banks
  const paying = [
    payingBank('9PSB', ninePsb.transfers.book, ninePsb.transfers, TRANSFER_OPERATIONS),
    payingBank('PROVIDUS', providus.transfers.book, providus.transfers, TRANSFER_OPERATIONS),
    payingBank('PALMPAY', palmPay.outgoing, palmPay, [
      'queryBankAccount',
      'payout',
      'queryPayStatus',
      'queryBalance',
    ]),
    payingBank('SAFEHAVEN', safeHaven.outgoing, safeHaven, [
      'enquiry',
      'transfer',
      'status',
      'balance',
    ]),
  ]
  let atNext: (() => void) | undefined
  for (const { book } of paying) {
    const { send } = book
    book.paysTwice = true
    book.floatMinor = 10n ** 15n
    book.send = (transfer, fault) => {
      const run = atNext
      atNext = undefined
      run?.()
      return send(transfer, fault)
    }
  }
  const atNextTransfer = (run: (() => void) | undefined) => {
    atNext = run
  }
  return { paying, environment: banks.environment, atNextTransfer, close: banks.close }
}

/** An instance in a separate process. */
export interface PayoutInstance {
  readonly child: ChildProcess
  readonly grpcUrl: string
  readonly payouts: Client<typeof PayoutService>
  /** Another person. */
  readonly approver: Client<typeof PayoutService>
  kill(): Promise<void>
}

/** How long the service waits for a response of a bank. */
export const BANK_TIMEOUT_MS = 1_000

/** @param aheadMs how far its own clock is ahead */
export async function startPayoutInstance(
  databaseUrl: string,
  environment: Readonly<Record<string, string>>,
  {
    aheadMs,
    approverToken,
    bankTimeoutMs = BANK_TIMEOUT_MS,
  }: {
    readonly aheadMs: number
    readonly approverToken: () => string
    readonly bankTimeoutMs?: number
  },
): Promise<PayoutInstance> {
  const timeouts = Object.keys(BANK_FACTS).map((code) => [
    `BANK_${code}_TIMEOUT_MS`,
    `${bankTimeoutMs}`,
  ])
  const child = spawn(process.execPath, [join(import.meta.dirname, 'payout-instance.ts')], {
    env: {
      ...environment,
      ...Object.fromEntries(timeouts),
      PATH: process.env['PATH'],
      LOG: process.env['LOG'] ?? 'fatal',
      RECONCILE_INTERVAL_MINUTES: '0',
      DATABASE_URL: databaseUrl,
      ADMIN_TOKEN,
      AHEAD_MS: `${aheadMs}`,
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const reap = () => child.kill('SIGKILL')
  process.once('exit', reap)
  const exited = once(child, 'exit').finally(() => process.off('exit', reap))
  const lines = createInterface({ input: child.stdout })
  const grpcUrl = await Promise.race([
    once(lines, 'line').then(([line]) => String(line)),
    exited.then(() => Promise.reject(new Error('the instance did not start'))),
  ])
  return {
    child,
    grpcUrl,
    payouts: grpcClient(PayoutService, grpcUrl),
    get approver() {
      return grpcClient(PayoutService, grpcUrl, approverToken())
    },
    async kill() {
      child.kill('SIGKILL')
      await exited
    },
  }
}

/** Creates a business with money that is available, in kobo. */
export async function fundBusiness(grpcUrl: string, availableMinor: bigint): Promise<string> {
  const { businessId, accountNumber } = await openBusinessOver(grpcTransport(grpcUrl))
  const sessionId = `funds-${businessId}`
  await grpcClient(TransactionService, grpcUrl).recordPayment({
    bank: Bank.BANK_PROVIDUS,
    accountNumber,
    sessionId,
    amountMinor: availableMinor,
  })
  const settlements = grpcClient(SettlementService, grpcUrl)
  await waitFor(async () => {
    const { transactionCount } = await settlements.previewSettlement({ businessId, force: true })
    if (transactionCount !== 1n) throw new Error('the payment is not numbered yet')
  })
  await settlements.settle({ businessId, force: true })
  await waitUntil(async () => {
    const { balance } = await settlements.getBalance({ businessId })
    return balance?.availableMinor === availableMinor
  })
  return businessId
}

/** An account at a bank of ours, or at another one, by a serial number. */
export function beneficiaryAt(code: PayingBank['code'] | undefined, serial: number) {
  const bankCode = code === undefined ? '000013' : BANK_FACTS[code].interbankCode
  const nubanCode = code === undefined ? '058' : BANK_FACTS[code].nubanCode
  return { bankCode, accountNumber: nuban(nubanCode, 100_000_000 + serial), accountName: '' }
}

const TRANSIENT: ReadonlySet<Code> = new Set([
  Code.Unavailable,
  Code.DeadlineExceeded,
  Code.Aborted,
  Code.Internal,
  Code.Unknown,
  Code.Canceled,
  Code.ResourceExhausted,
])

const BACKOFF_MS = { min: 20, max: 1_000 }

/** Repeats an idempotent call until an instance responds. @returns undefined if the call was refused */
export async function insist<T>(
  instances: readonly PayoutInstance[],
  first: number,
  call: (instance: PayoutInstance) => Promise<T>,
): Promise<T | undefined> {
  for (let delayMs = BACKOFF_MS.min, at = first; ; at++) {
    try {
      return await call(instances[at % instances.length] as PayoutInstance)
    } catch (error) {
      if (!TRANSIENT.has(ConnectError.from(error).code)) return undefined
    }
    // Hundreds of callers that repeat at once would keep an instance from starting.
    await setTimeout(delayMs)
    delayMs = Math.min(2 * delayMs, BACKOFF_MS.max)
  }
}

/** Finds payouts that differ from the books of the bank. Returned payouts and their steps are final too. */
export async function compareBooks(pool: Pool, banks: readonly PayingBank[]): Promise<string[]> {
  const { rows } = await pool.query<{
    reference: string
    status: string
    bank: string | null
    amount: string
    account: string
  }>(
    `select bank_reference as reference, status, bank, amount_minor as amount, account_number as account from payout`,
  )
  const wrong: string[] = []
  const known = new Map(rows.map((row) => [row.reference, row]))
  const seen = new Set<string>()
  for (const { code, book } of banks) {
    for (const [reference, transfer] of book.transfers) {
      const row = known.get(reference)
      const at = `${reference} at ${code}`
      if (row === undefined) wrong.push(`${at}: no payout of ours`)
      else if (row.bank !== code) wrong.push(`${at}: ours is ${row.status} at ${row.bank}`)
      if (seen.has(reference) || transfer.debits !== 1) wrong.push(`${at}: paid twice`)
      seen.add(reference)
      if (row === undefined) continue
      if (`${transfer.amountMinor} ${transfer.accountNumber}` !== `${row.amount} ${row.account}`) {
        wrong.push(`${at}: other details`)
      }
      const expected = { paid: 'PAID', failed: 'FAILED', returned: 'RETURNED', pending: '' }
      if (row.status !== expected[transfer.state]) {
        wrong.push(`${at}: ${transfer.state}, ours is ${row.status}`)
      }
    }
  }
  for (const { reference, status } of rows) {
    const isUnpaid = ['FAILED', 'REJECTED', 'CANCELLED', 'EXPIRED'].includes(status)
    if (!seen.has(reference) && !isUnpaid) wrong.push(`${reference}: ${status}, no bank has it`)
  }
  return wrong
}

const DECISIONS = {
  paid: PayoutDecision.MARK_PAID,
  returned: PayoutDecision.MARK_PAID,
  failed: PayoutDecision.MARK_FAILED,
  pending: PayoutDecision.ASK_AGAIN,
} as const

/** Decides the payouts that wait for an operator, by the books of the banks. @returns their number */
export async function decideByBooks(
  pool: Pool,
  banks: readonly PayingBank[],
  payouts: Client<typeof PayoutService>,
): Promise<number> {
  const { rows } = await pool.query<{ id: string; reference: string; resent: boolean }>(
    `select id, bank_reference as reference, exists (
        select from payout_step s where s.payout_id = p.id and text like 'an operator has it sent again%') as resent
      from payout p where status = 'MANUAL_REVIEW'`,
  )
  for (const { id: payoutId, reference, resent } of rows) {
    const resolve = (decision: PayoutDecision) =>
      payouts.resolvePayout({ payoutId, decision, note: 'the books' })
    for (const { book } of banks) book.elapse(0)
    const state = banks.map(({ book }) => book.transfers.get(reference)).find(Boolean)?.state
    const fail = () => resolve(PayoutDecision.MARK_FAILED)
    // One that was sent again in vain is given up: its account may have another name for good.
    const unseen = () => (resent ? fail() : resolve(PayoutDecision.RESEND).catch(fail))
    const decided = state === undefined ? unseen() : resolve(DECISIONS[state])
    // It may have moved since.
    await decided.catch(ConnectError.from)
  }
  return rows.length
}

/** Whether the available balance of any business was ever below zero, by the events in their order. */
export async function everNegative(pool: Pool): Promise<string[]> {
  const { rows } = await pool.query<{ text: string }>(
    `select running::text as text from (
        select business_id, business_sequence,
          sum(available_minor) over (partition by business_id, live order by business_sequence) as available,
          sum(pending_minor) over (partition by business_id, live order by business_sequence) as pending
        from money_event
      ) running where available < 0 or pending < 0 limit 5`,
  )
  return rows.map(({ text }) => text)
}
