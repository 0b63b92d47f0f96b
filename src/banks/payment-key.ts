import type { BankCode } from './bank.ts'

/** At these banks the session id is also the bank's key of a payment. */
export const KEYED_BY_SESSION: ReadonlySet<BankCode> = new Set(['9PSB', 'SAFEHAVEN'])
