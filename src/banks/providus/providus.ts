import type {
  Acknowledgement,
  BankNotification,
  LiveConnector,
  NotificationOutcome,
} from '../bank.ts'
import { type BankHttp, BankUnreachable } from '../http/bank-http.ts'
import { parseBankJson } from '../http/bank-json.ts'
import { readNotification, said } from './notification.ts'
import { orderBody, toAccountResult } from './open-account.ts'
import { requery } from './requery.ts'
import type { ProvidusSettings } from './settings.ts'
import { authSignature } from './signature.ts'

interface ProvidusOptions {
  readonly settings: ProvidusSettings
  readonly http: BankHttp
}

/**
 * Providus Bank: reserved accounts of its digital collection service.
 *
 * It has no `closeAccount`: an account on the bank's black list still receives money, of which the
 * bank then does not tell. Blocked here instead, its payments are seen, and kept as unmatched.
 */
export function createProvidus({ settings, http }: ProvidusOptions): LiveConnector {
  const { clientId, clientSecret, amountField, createPath } = settings
  const signature = authSignature(clientId, clientSecret)
  const headers = {
    'client-id': clientId,
    'x-auth-signature': signature,
    'content-type': 'application/json',
    accept: 'application/json',
  }
  return {
    // It takes no reference of ours, so asking again could open a second account.
    afterCrash: 'person',
    async openAccount(order, signal) {
      if (order.repeated) {
        const cause = 'an earlier attempt had no clear end, and the bank cannot be asked of it'
        return { kind: 'unknown', cause, next: 'person' }
      }
      const body = JSON.stringify(orderBody(order, settings.createFields))
      try {
        const request = { method: 'POST', path: createPath, headers, body, signal } as const
        return toAccountResult(order, await http.send(request))
      } catch (error) {
        if (!(error instanceof BankUnreachable)) throw error
        const cause = error.message
        if (!error.sent) return { kind: 'unavailable', cause }
        return { kind: 'unknown', cause, next: 'person' }
      }
    },
    read: (notification) => readNotification(notification, { clientId, signature, amountField }),
    acknowledge: (outcome, notification) => acknowledge(outcome, notification, settings.deniedCode),
    requery: (payment, signal) => requery({ settings, http, headers }, payment, signal),
  }
}

const MESSAGES = {
  '00': 'success',
  '01': 'duplicate transaction',
  '02': 'rejected transaction',
  '03': 'system failure, retry',
} as const

/** Code 02 is final at the bank, so it never stands for a fault of ours, nor for a wrong secret. */
function acknowledge(
  outcome: NotificationOutcome,
  { rawBody }: BankNotification,
  deniedCode: '02' | '03',
): Acknowledgement {
  const code = codeOf(outcome, deniedCode)
  // Whoever is not the bank gets nothing of his back.
  const forged = outcome === 'UNAUTHENTICATED'
  const sessionId = forged ? '' : said(parseBankJson(rawBody.toString('utf8')), 'sessionId')
  return {
    status: forged ? 401 : 200,
    contentType: 'application/json',
    body: JSON.stringify({
      requestSuccessful: !forged,
      sessionId: sessionId.slice(0, 100),
      responseMessage: MESSAGES[code],
      responseCode: code,
    }),
  }
}

function codeOf(outcome: NotificationOutcome, deniedCode: '02' | '03'): keyof typeof MESSAGES {
  if (outcome === 'DUPLICATE') return '01'
  if (outcome === 'UNCONFIRMED') return deniedCode
  return outcome === 'RETRY' || outcome === 'UNAUTHENTICATED' ? '03' : '00'
}
