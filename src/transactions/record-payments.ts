import type { OpenAccount } from '../accounts/account.ts'
import type { FindOpenAccounts } from '../accounts/open-accounts.ts'
import { Fault, type Reason } from '../core/errors.ts'
import type { RecordTokenPayment } from './record-payment.ts'
import type { RecordResult, TokenPayment } from './transaction.ts'

/** Records the payments of one call, and returns their results in the same order: a Fault refuses its payment alone. */
export type RecordPayments = (
  payments: readonly TokenPayment[],
) => Promise<readonly (RecordResult | Fault)[]>

interface Dependencies {
  readonly findOpenAccounts: FindOpenAccounts
  readonly recordPayment: RecordTokenPayment
}

/**
 * Creates the function. The results are those of the same payments recorded one after the other. A payment
 * waits only for those before it that its result may depend on; the others share the batches of `recordPayment`.
 *
 * Faults that fail the whole call: those of `recordPayment` that concern no single payment, such as unavailable.
 */
export function createRecordPayments(dependencies: Dependencies): RecordPayments {
  const { findOpenAccounts, recordPayment } = dependencies
  const recordOne = async (payment: TokenPayment): Promise<RecordResult | Fault> => {
    try {
      return await recordPayment(payment)
    } catch (error) {
      if (error instanceof Fault && REFUSALS.has(error.reason)) return error
      throw error
    }
  }
  const recordAfter = async (
    before: readonly Promise<RecordResult | Fault>[],
    payment: TokenPayment,
  ): Promise<RecordResult | Fault> => {
    const results = await Promise.all(before)
    // Otherwise each repeat would wait for the bank as long as the first.
    return results.find(isUnavailable) ?? recordOne(payment)
  }
  return async (payments) => {
    const accounts = await findOpenAccounts(payments)
    /** By key: the result that the next payment with the key waits for. */
    const turns = new Map<string, Promise<RecordResult | Fault>>()
    const results = payments.map((payment, index) => {
      const account = accounts[index]
      const keys = reportKeysOf(payment, account)
      const useKey = account?.terms?.singleUse ? account.id : ''
      const before = [...keys, useKey].flatMap((key) => turns.get(key) ?? [])
      const result = before.length === 0 ? recordOne(payment) : recordAfter(before, payment)
      for (const key of keys) turns.set(key, turnAfter(turns.get(key), result))
      // The first payment into a single-use account uses it up.
      if (useKey !== '') turns.set(useKey, result)
      return result
    })
    return Promise.all(results)
  }
}

/** Once a payment is final, reports of it change nothing, and their order does not matter. */
function turnAfter(
  before: Promise<RecordResult | Fault> | undefined,
  result: Promise<RecordResult | Fault>,
): Promise<RecordResult | Fault> {
  if (before === undefined) return result
  const turn = before.then((earlier) => (isFinal(earlier) ? earlier : result))
  // The call reports this error by the result itself.
  turn.catch(() => undefined)
  return turn
}

function isFinal(result: RecordResult | Fault): boolean {
  if (result instanceof Fault || result.transaction === undefined) return false
  return result.transaction.status !== 'PENDING'
}

/** Reasons that refuse one payment, and none of the others. */
const REFUSALS: ReadonlySet<Reason> = new Set([
  'internal',
  'payment_unconfirmed',
  'bank_key_required',
  'bank_unavailable',
])

function isUnavailable(result: RecordResult | Fault): result is Fault {
  return result instanceof Fault && result.reason === 'bank_unavailable'
}

/**
 * Payments with a key in common may be reports of one payment, of which the first counts. Sessions of live and of test
 * mode are separate. A report that names no open account may be of a live payment.
 */
function reportKeysOf(
  { bank, sessionId, bankKey }: TokenPayment,
  account: OpenAccount | undefined,
): readonly string[] {
  const mode = account?.live === false ? 'test' : 'live'
  const session = `${mode} ${bank} session ${sessionId}`
  return bankKey === '' ? [session] : [session, `${mode} ${bank} key ${bankKey}`]
}
