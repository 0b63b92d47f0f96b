import { DENIED } from '../access-denied.ts'
import type { BankPayment, Requery } from '../bank.ts'
import {
  AccessDeniedError,
  type BankRequest,
  type BankResponse,
  BankUnreachableError,
} from '../http/bank-http.ts'
import { parseBankJson } from '../http/bank-json.ts'
import { fieldText, readTransaction } from './notification.ts'
import type { ProvidusSettings } from './settings.ts'

/** Sends a request with our credentials. @throws BankUnreachableError */
export type ProvidusSend = (request: Omit<BankRequest, 'headers'>) => Promise<BankResponse>

interface RequeryOptions {
  readonly settings: ProvidusSettings
  readonly send: ProvidusSend
}

/**
 * Requeries a payment by its settlement id and, if that finds nothing or the path is not served, by
 * its session id. The bank has to return both identifiers unchanged, as the signature of a
 * notification covers neither.
 */
export async function requery(
  { settings, send }: RequeryOptions,
  payment: BankPayment,
  signal: AbortSignal,
): Promise<Requery> {
  const { verifySettlementPath, verifySessionPath, amountField } = settings
  const ask = async (path: string): Promise<Requery> => {
    try {
      const response = await send({ method: 'GET', path, signal })
      return classify(response, payment, amountField)
    } catch (error) {
      if (!(error instanceof BankUnreachableError)) throw error
      const denied = error instanceof AccessDeniedError && DENIED
      return { kind: 'unknown', cause: error.message, ...denied }
    }
  }
  const settlementId = encodeURIComponent(payment.bankKey)
  const bySettlement = await ask(`${verifySettlementPath}?settlement_id=${settlementId}`)
  if (bySettlement.kind === 'confirmed' || payment.sessionId === payment.bankKey) {
    return bySettlement
  }
  const sessionId = encodeURIComponent(payment.sessionId)
  const bySession = await ask(`${verifySessionPath}?session_id=${sessionId}`)
  // The request that failed might have found it.
  const isUnclear = bySession.kind === 'denied' && bySettlement.kind === 'unknown'
  return isUnclear ? bySettlement : bySession
}

function classify(
  { status, text }: BankResponse,
  reported: BankPayment,
  amountField: ProvidusSettings['amountField'],
): Requery {
  const body = parseBankJson(text)
  // If nothing is found, the bank returns an empty payment with this remark.
  const isEmpty = fieldText(body, 'accountNumber') === '' && fieldText(body, 'settlementId') === ''
  if (isEmpty && status < 500 && /not found/i.test(fieldText(body, 'tranRemarks'))) {
    return {
      kind: 'denied',
      cause: `HTTP ${status}: ${fieldText(body, 'tranRemarks').slice(0, 100)}`,
    }
  }
  if (status !== 200) return { kind: 'unknown', cause: `HTTP ${status}` }
  const payment = readTransaction(body, amountField)
  if (typeof payment === 'string')
    return { kind: 'unknown', cause: `malformed payment in the requery: ${payment}` }
  if (payment.bankKey !== reported.bankKey) {
    return { kind: 'denied', cause: 'the bank has another settlement id for it' }
  }
  const sessionId = fieldText(body, 'sessionId')
  if (
    sessionId !== '' &&
    sessionId !== reported.sessionId &&
    reported.sessionId !== reported.bankKey
  ) {
    return { kind: 'denied', cause: 'the bank has another session id for it' }
  }
  return { kind: 'confirmed', payment }
}
