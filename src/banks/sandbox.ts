import { createHash } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import type { Pool } from 'pg'
import type { Clock } from '../core/clock.ts'
import { INT64_MAX } from '../core/money.ts'
import type { AccountOrder, AccountResult, BankConnector } from './bank.ts'
import { BANK_FACTS } from './bank.ts'
import { createInstitutions, isNubanFault } from './institutions.ts'
import { nuban } from './nuban.ts'
import type { FoundTransfer, TransferConnector, TransferOrder } from './transfer.ts'

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
  /** Always refuses, for a cause that does not concern the customer. */
  refusesAlways: '08000000005',
} as const

/**
 * Prefixes of account numbers that make a transfer of the sandbox go wrong. They are followed by any last
 * digit, so that the check digit can be valid at any bank.
 */
export const MAGIC_ACCOUNTS = {
  /** The transfer is accepted, and paid after five seconds. */
  paysLate: '000000001',
  /** The beneficiary's bank rejects it. */
  rejects: '000000002',
  /** There is no response; a status query finds the transfer paid after five seconds. */
  timesOut: '000000003',
  /** There is no response, and status queries never find the transfer: an operator has to decide. */
  getsLost: '000000004',
  /** The name enquiry finds no account, and a transfer is rejected. */
  isUnknown: '000000005',
  /** The transfer is paid, and sent back a minute later. */
  returns: '000000006',
} as const

const TIMEOUT_MS = 1_000
const LATE_MS = 2_000

/**
 * A simulated bank inside this process. It opens accounts with valid account numbers, and pays
 * transfers from an unlimited float.
 */
export function createSandboxBank(pool: Pool, clock: Clock): BankConnector {
  const nextSerial = createSerials(pool)
  return {
    transfers: createTransfers(clock),
    // A crashed opening leaves only an unused serial behind.
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

const PAYS_AFTER_MS = 5_000
const RETURNS_AFTER_MS = 60_000

/** Short, so that a lost transfer soon goes to manual review. */
const CONSISTENCY_MS = 8_000

/** More transfers than one process sends within a minute. */
const SENT_MAX = 10_000

/**
 * The result of a transfer depends only on the account number and on how long ago it was sent. The sending time
 * is kept in the memory of the process that sent it. Other processes, and this one after a restart, assume
 * that it was long ago.
 */
function createTransfers(clock: Clock): TransferConnector {
  const institutions = createInstitutions()
  const sentAtMs = new LRUCache<string, number>({ max: SENT_MAX })
  const ageMs = ({ reference }: TransferOrder) => clock.now() - (sentAtMs.get(reference) ?? 0)
  return {
    consistencyMs: CONSISTENCY_MS,
    async enquireName({ bankCode, accountNumber }) {
      const institution = institutions.find(bankCode)
      const isMistyped =
        institution !== undefined &&
        isNubanFault(institution, accountNumber) &&
        !isAnyMagic(accountNumber)
      return isMistyped || isMagic(accountNumber, 'isUnknown')
        ? { kind: 'not found', cause: 'the simulated bank has no such account' }
        : { kind: 'found', accountName: simulatedName(accountNumber), enquiryReference: '' }
    },
    async send(order) {
      if (!sentAtMs.has(order.reference)) sentAtMs.set(order.reference, clock.now())
      const { accountNumber } = order.beneficiary
      const isUnanswered = isMagic(accountNumber, 'timesOut') || isMagic(accountNumber, 'getsLost')
      if (isUnanswered) return { kind: 'unknown', cause: 'no response of the simulated bank' }
      const found = stateAt(order, ageMs(order))
      return found.kind === 'not found' ? { ...found, kind: 'unknown' } : found
    },
    async find(order) {
      if (order.mayBeUnsent && !sentAtMs.has(order.reference)) {
        return { kind: 'not found', cause: 'the simulated bank does not know the transfer' }
      }
      return stateAt(order, ageMs(order))
    },
    async readFloat() {
      return { kind: 'read', availableMinor: INT64_MAX }
    },
  }
}

function stateAt(order: TransferOrder, ageMs: number): FoundTransfer {
  const is = (kind: keyof typeof MAGIC_ACCOUNTS) => isMagic(order.beneficiary.accountNumber, kind)
  if (is('rejects') || is('isUnknown')) {
    const cause = 'rejected by the simulated bank of the beneficiary'
    return { kind: 'failed', cause, reason: 'beneficiary_rejected' }
  }
  const isFresh = ageMs < PAYS_AFTER_MS
  if (is('getsLost') || (is('timesOut') && isFresh)) {
    return { kind: 'not found', cause: 'the simulated bank does not know the transfer' }
  }
  if (is('paysLate') && isFresh) return { kind: 'pending', cause: 'accepted, to be paid soon' }
  if (is('returns') && ageMs >= RETURNS_AFTER_MS) {
    return { kind: 'returned', cause: 'sent back by the simulated bank of the beneficiary' }
  }
  return { kind: 'paid', sessionId: sessionIdOf(order) }
}

function isAnyMagic(accountNumber: string): boolean {
  return Object.values(MAGIC_ACCOUNTS).some((digits) => accountNumber.startsWith(digits))
}

function isMagic(accountNumber: string, kind: keyof typeof MAGIC_ACCOUNTS): boolean {
  return accountNumber.slice(0, -1) === MAGIC_ACCOUNTS[kind]
}

/** 30 digits that are always the same for a reference. They begin with a code that no institution has. */
function sessionIdOf({ reference }: TransferOrder): string {
  const hash = createHash('sha256').update(reference).digest('hex').slice(0, 20)
  return `999999${BigInt(`0x${hash}`).toString().slice(-24).padStart(24, '0')}`
}

const GIVEN_NAMES = 'ADA BOLA CHIDI DAYO EMEKA FUNKE HALIMA IBRAHIM KEMI NGOZI'.split(' ')
const FAMILY_NAMES = 'ABUBAKAR ADEYEMI BALOGUN BELLO DANJUMA EZE MUSA OBI OKAFOR OKORO'.split(' ')

/** The holder of a simulated account: always the same for an account number. */
export function simulatedName(accountNumber: string): string {
  const digit = (position: number) => Number(accountNumber.at(position) ?? 0)
  return `${FAMILY_NAMES[digit(-2)]} ${GIVEN_NAMES[digit(-3)]} ${GIVEN_NAMES[digit(-4)]}`
}
