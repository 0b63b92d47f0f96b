import type { BankPayment, Requery } from '../bank.ts'
import { type BankAnswer, type BankHttp, BankUnreachable } from '../http/bank-http.ts'
import { parseBankJson } from '../http/bank-json.ts'
import { readTransaction, said } from './notification.ts'
import type { ProvidusSettings } from './settings.ts'

interface RequeryOptions {
  readonly settings: ProvidusSettings
  readonly http: BankHttp
  readonly headers: Readonly<Record<string, string>>
}

/**
 * Asks for a payment by its settlement id, and where that finds nothing or is not served, by its
 * session id. Confirmed is only what the bank shows under both identifiers: the signature of
 * notifications binds neither to the other.
 */
export async function requery(
  { settings, http, headers }: RequeryOptions,
  payment: BankPayment,
  signal: AbortSignal,
): Promise<Requery> {
  const { verifySettlementPath, verifySessionPath, amountField } = settings
  const ask = async (path: string): Promise<Requery> => {
    try {
      const answer = await http.send({ method: 'GET', path, headers, signal })
      return judge(answer, payment, amountField)
    } catch (error) {
      if (!(error instanceof BankUnreachable)) throw error
      return { kind: 'unknown', cause: error.message }
    }
  }
  const settlementId = encodeURIComponent(payment.bankKey)
  const bySettlement = await ask(`${verifySettlementPath}?settlement_id=${settlementId}`)
  if (bySettlement.kind === 'confirmed' || payment.sessionId === payment.bankKey) {
    return bySettlement
  }
  const sessionId = encodeURIComponent(payment.sessionId)
  const bySession = await ask(`${verifySessionPath}?session_id=${sessionId}`)
  // A question that had no answer could have found it.
  const unclear = bySession.kind === 'denied' && bySettlement.kind === 'unknown'
  return unclear ? bySettlement : bySession
}

function judge(
  { status, text }: BankAnswer,
  asked: BankPayment,
  amountField: ProvidusSettings['amountField'],
): Requery {
  const body = parseBankJson(text)
  // Nothing found has the shape of a payment, with this remark and nothing else in it.
  const nothing = said(body, 'accountNumber') === '' && said(body, 'settlementId') === ''
  if (nothing && status < 500 && /not found/i.test(said(body, 'tranRemarks'))) {
    return { kind: 'denied', cause: `HTTP ${status}: ${said(body, 'tranRemarks').slice(0, 100)}` }
  }
  if (status !== 200) return { kind: 'unknown', cause: `HTTP ${status}` }
  const payment = readTransaction(body, amountField)
  if (typeof payment === 'string')
    return { kind: 'unknown', cause: `the bank’s payment: ${payment}` }
  if (payment.bankKey !== asked.bankKey) {
    return { kind: 'denied', cause: 'the bank knows it by another settlement id' }
  }
  const sessionId = said(body, 'sessionId')
  if (sessionId !== '' && sessionId !== asked.sessionId && asked.sessionId !== asked.bankKey) {
    return { kind: 'denied', cause: 'the bank knows it by another session id' }
  }
  return { kind: 'confirmed', payment }
}
