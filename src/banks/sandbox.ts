import { setTimeout as wait } from 'node:timers/promises'
import type { Pool } from 'pg'
import type { AccountOrder, AccountResult, BankConnector } from './bank.ts'
import { BANK_FACTS } from './bank.ts'
import { nuban } from './nuban.ts'

/** The increment of the database sequence: serials are allocated in blocks. */
const BLOCK_SIZE = 256

/**
 * Phone numbers that make the sandbox fail, so that a caller can test its error handling. A retry
 * of the same request succeeds, except for `rejects` and `refusesAlways`.
 */
export const MAGIC_PHONES = {
  /** Times out after a second without opening an account. */
  timesOut: '08000000001',
  /** Fails at once with a temporary error. */
  refuses: '08000000002',
  /** Succeeds after two seconds. */
  respondsLate: '08000000003',
  /** Always rejects the customer's identity number. */
  rejects: '08000000004',
  /** Always refuses, for a cause that is not the customer's. */
  refusesAlways: '08000000005',
} as const

const TIMEOUT_MS = 1_000
const LATE_MS = 2_000

/** A simulated bank inside this process. It opens accounts with valid account numbers. */
export function createSandboxBank(pool: Pool): BankConnector {
  const nextSerial = createSerials(pool)
  return {
    // An opening that crashed leaves nothing behind but an unused serial.
    afterCrash: 'retry',
    async openAccount(order, signal) {
      const failure = await simulateFailure(order, signal)
      if (failure) return failure
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

async function simulateFailure(
  order: AccountOrder,
  signal: AbortSignal,
): Promise<AccountResult | undefined> {
  const phone = order.phone.replace(/^\+?234/, '0')
  if (phone === MAGIC_PHONES.rejects) {
    const message = 'was not recognised by the bank'
    return { kind: 'rejected', fields: [{ field: 'idNumber', message }] }
  }
  if (phone === MAGIC_PHONES.refusesAlways) {
    return { kind: 'unavailable', cause: 'refused by the simulated bank', refusal: 'request' }
  }
  if (order.attempt > 1) return undefined
  if (phone === MAGIC_PHONES.refuses) return { kind: 'unavailable', cause: 'temporary failure' }
  if (phone === MAGIC_PHONES.respondsLate) await wait(LATE_MS, undefined, { signal })
  if (phone !== MAGIC_PHONES.timesOut) return undefined
  await wait(TIMEOUT_MS, undefined, { signal })
  return { kind: 'unavailable', cause: `no response within ${TIMEOUT_MS} ms` }
}

/** Allocates serials in blocks, so that most accounts need no database query. */
function createSerials(pool: Pool): () => Promise<number> {
  let next = 0
  let remaining = 0
  let refill: Promise<void> | undefined
  const allocateBlock = async (): Promise<void> => {
    const result = await pool.query<{ serial: string }>(
      "select nextval('sandbox_serial') as serial",
    )
    next = Number(result.rows[0]?.serial)
    remaining = BLOCK_SIZE
  }
  return async () => {
    while (remaining === 0) {
      refill ??= allocateBlock().finally(() => {
        refill = undefined
      })
      await refill
    }
    remaining -= 1
    next += 1
    return next - 1
  }
}

const GIVEN_NAMES = [
  'ADA',
  'BOLA',
  'CHIDI',
  'DAYO',
  'EMEKA',
  'FUNKE',
  'HALIMA',
  'IBRAHIM',
  'KEMI',
  'NGOZI',
]
const FAMILY_NAMES = [
  'ABUBAKAR',
  'ADEYEMI',
  'BALOGUN',
  'BELLO',
  'DANJUMA',
  'EZE',
  'MUSA',
  'OBI',
  'OKAFOR',
  'OKORO',
]

/** The holder of a simulated account: always the same for an account number. */
export function simulatedName(accountNumber: string): string {
  const digit = (position: number) => Number(accountNumber.at(position) ?? 0)
  return `${FAMILY_NAMES[digit(-2)]} ${GIVEN_NAMES[digit(-3)]} ${GIVEN_NAMES[digit(-4)]}`
}
