import { setTimeout as wait } from 'node:timers/promises'
import type { Pool } from 'pg'
import type { AccountOrder, AccountResult, BankConnector } from '../bank.ts'
import { BANK_FACTS } from '../bank.ts'
import { nuban } from '../nuban.ts'

/** How many serials one step of the database's sequence stands for. */
const SERIALS_A_BLOCK = 256

/**
 * Phone numbers that make the sandbox misbehave, so that a caller can see what it would do.
 * A repeat of the same request succeeds, but for `rejects`.
 */
export const MAGIC_PHONES = {
  /** Does not answer within a second; no account was made. */
  timesOut: '08000000001',
  /** Refuses for a passing cause, at once. */
  refuses: '08000000002',
  /** Answers after two seconds, well. */
  answersLate: '08000000003',
  /** Finds the customer's identity number wrong, every time. */
  rejects: '08000000004',
} as const

const TIMEOUT_MS = 1_000
const LATE_MS = 2_000

/** A bank that exists in this process alone. It opens real rows and valid numbers. */
export function createSandboxBank(pool: Pool): BankConnector {
  const nextSerial = createSerials(pool)
  return {
    // Whoever died before the answer left nothing behind but a serial.
    afterCrash: 'repeat',
    async openAccount(order, signal) {
      const misbehaviour = await misbehave(order, signal)
      if (misbehaviour) return misbehaviour
      const accountNumber = nuban(BANK_FACTS[order.bank].nubanCode, await nextSerial())
      return {
        kind: 'opened',
        accountNumber,
        accountName: order.accountName,
        bankAccountId: '',
      }
    },
  }
}

async function misbehave(
  order: AccountOrder,
  signal: AbortSignal,
): Promise<AccountResult | undefined> {
  const phone = order.phone.replace(/^\+?234/, '0')
  if (phone === MAGIC_PHONES.rejects) {
    const message = 'was not recognised by the bank'
    return { kind: 'rejected', fields: [{ field: 'idNumber', message }] }
  }
  if (order.attempt > 1) return undefined
  if (phone === MAGIC_PHONES.refuses) return { kind: 'unavailable', cause: 'refused' }
  if (phone === MAGIC_PHONES.answersLate) await wait(LATE_MS, undefined, { signal })
  if (phone !== MAGIC_PHONES.timesOut) return undefined
  await wait(TIMEOUT_MS, undefined, { signal })
  return { kind: 'unavailable', cause: `no answer within ${TIMEOUT_MS} ms` }
}

/** Hands out serials from blocks, so that most accounts need no question to the database. */
function createSerials(pool: Pool): () => Promise<number> {
  let next = 0
  let left = 0
  let refill: Promise<void> | undefined
  const takeBlock = async (): Promise<void> => {
    const result = await pool.query<{ serial: string }>(
      "select nextval('sandbox_serial') as serial",
    )
    next = Number(result.rows[0]?.serial)
    left = SERIALS_A_BLOCK
  }
  return async () => {
    while (left === 0) {
      refill ??= takeBlock().finally(() => {
        refill = undefined
      })
      await refill
    }
    left -= 1
    next += 1
    return next - 1
  }
}
