import { DENIED } from '../access-denied.ts'
import type {
  Acknowledgement,
  BankNotification,
  LiveConnector,
  NotificationOutcome,
} from '../bank.ts'
import {
  AccessDeniedError,
  type BankHttp,
  BankUnreachableError,
  type OnAccess,
} from '../http/bank-http.ts'
import { parseBankJson } from '../http/bank-json.ts'
import { fieldText, readNotification } from './notification.ts'
import { denialOf, orderBody, toAccountResult } from './open-account.ts'
import { type ProvidusSend, requery } from './requery.ts'
import type { ProvidusSettings } from './settings.ts'
import { authSignature } from './signature.ts'

interface ProvidusOptions {
  readonly settings: ProvidusSettings
  readonly http: BankHttp
  readonly onAccess?: OnAccess
}

/**
 * Providus Bank: reserved accounts of its digital collection service.
 *
 * It has no `closeAccount`: an account on the bank's blacklist still receives money, but the bank
 * no longer notifies us. Blocked on our side instead, its payments are recorded as unmatched.
 */
export function createProvidus({ settings, http, onAccess }: ProvidusOptions): LiveConnector {
  const { clientId, clientSecret, amountField, createPath } = settings
  const signature = authSignature(clientId, clientSecret)
  const headers = {
    'client-id': clientId,
    'x-auth-signature': signature,
    'content-type': 'application/json',
    accept: 'application/json',
  }
  const send: ProvidusSend = async (request) => {
    const response = await http.send({ ...request, headers })
    const denial = denialOf(response)
    if (denial !== undefined) {
      onAccess?.(denial)
      throw new AccessDeniedError(denial)
    }
    // Anything else than JSON is not from the bank's application.
    if (response.status === 200 && parseBankJson(response.text) !== undefined) onAccess?.(undefined)
    return response
  }
  return {
    // The bank accepts no reference of ours, so a retry could open a second account.
    afterCrash: 'manual review',
    async openAccount(order, signal) {
      if (order.repeated) {
        const cause =
          'the result of an earlier attempt is unknown, and the bank cannot be requeried'
        return { kind: 'unknown', cause, next: 'manual review' }
      }
      const body = JSON.stringify(orderBody(order, settings.createFields))
      try {
        const request = { method: 'POST', path: createPath, body, signal } as const
        return toAccountResult(order, await send(request))
      } catch (error) {
        if (!(error instanceof BankUnreachableError)) throw error
        const cause = error.message
        if (error instanceof AccessDeniedError) return { kind: 'unavailable', cause, ...DENIED }
        if (!error.sent) return { kind: 'unavailable', cause }
        return { kind: 'unknown', cause, next: 'manual review' }
      }
    },
    read: (notification) => readNotification(notification, { clientId, signature, amountField }),
    acknowledge: (outcome, notification) => acknowledge(outcome, notification, settings.deniedCode),
    requery: (payment, signal) => requery({ settings, send }, payment, signal),
  }
}

const MESSAGES = {
  '00': 'success',
  '01': 'duplicate transaction',
  '02': 'rejected transaction',
  '03': 'system failure, retry',
} as const

/** Code 02 is final at the bank, so it is never sent for our own faults or a wrong secret. */
function acknowledge(
  outcome: NotificationOutcome,
  { rawBody }: BankNotification,
  deniedCode: '02' | '03',
): Acknowledgement {
  const code = codeOf(outcome, deniedCode)
  // Echo nothing to a caller that is not the bank.
  const isUnauthenticated = outcome === 'UNAUTHENTICATED'
  const sessionId = isUnauthenticated
    ? ''
    : fieldText(parseBankJson(rawBody.toString('utf8')), 'sessionId')
  return {
    status: isUnauthenticated ? 401 : 200,
    contentType: 'application/json',
    body: JSON.stringify({
      requestSuccessful: !isUnauthenticated,
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
