import { randomInt } from 'node:crypto'
import type { Pool } from 'pg'
import { getOpenAccountByNumber } from '../accounts/get-account.ts'
import { BANK_FACTS, type BankCode } from '../banks/bank.ts'
import type { Clock, TimeText } from '../clock.ts'
import { Fault } from '../errors.ts'
import type { RecordPayment, RecordResult } from '../transactions/record-payment.ts'

interface Dependencies {
  readonly pool: Pool
  readonly clock: Clock
  readonly timeText: TimeText
  readonly recordPayment: RecordPayment
  /** Whether a bank is served by the sandbox. */
  readonly isSandbox: (bank: BankCode) => boolean
}

interface SimulateTransfer {
  readonly accountNumber: string
  readonly amountMinor: bigint
  /** Empty: a new one. */
  readonly sessionId: string
  /** Empty: a made-up one. */
  readonly payerName: string
}

/**
 * Makes money arrive at a sandbox bank, which tells of it as a bank does.
 *
 * Faults: not_found (no such account), not_sandbox (its bank is a real one).
 */
export async function simulateTransfer(
  { pool, clock, timeText, recordPayment, isSandbox }: Dependencies,
  request: SimulateTransfer,
): Promise<RecordResult & { readonly sessionId: string }> {
  const account = await getOpenAccountByNumber(pool, request.accountNumber)
  if (!isSandbox(account.bank)) {
    throw new Fault('not_sandbox', `${account.bank} is not served by the sandbox`)
  }
  const nowMs = clock.now()
  const sessionId = request.sessionId || newSessionId(account.bank, timeText.format(nowMs))
  const result = await recordPayment({
    bank: account.bank,
    accountNumber: request.accountNumber,
    sessionId,
    amountMinor: request.amountMinor,
    status: 'SUCCESS',
    paidAtMs: nowMs,
    payer: {
      name: request.payerName || 'SANDBOX PAYER',
      accountNumber: '0123456789',
      bankCode: '000000',
      bankName: 'Sandbox Bank',
    },
    narration: 'Simulated transfer',
  })
  return { ...result, sessionId }
}

/** Six digits of the institution, twelve of local time (yyMMddHHmmss), twelve unique ones. */
function newSessionId(bank: BankCode, localTime: string): string {
  const time = localTime.replaceAll(/\D/g, '').slice(2)
  const unique =
    String(randomInt(1_000_000)).padStart(6, '0') + String(randomInt(1_000_000)).padStart(6, '0')
  return BANK_FACTS[bank].interbankCode + time + unique
}
