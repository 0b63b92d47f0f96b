import type { Clock } from '../../core/clock.ts'
import { getPath } from '../bank-fields.ts'
import { createAccessToken, type IssuedToken } from '../http/access-token.ts'
import {
  AccessDeniedError,
  type BankHttp,
  type BankResponse,
  BankUnreachableError,
  type OnAccess,
} from '../http/bank-http.ts'
import { parseBankJson } from '../http/bank-json.ts'
import { plainText } from '../plain-text.ts'
import type { NinePsbSettings } from './settings.ts'

/** The result of a call. */
export type NinePsbResponse =
  /** `code` is empty if the bank sent none. */
  | { readonly kind: 'responded'; readonly code: string; readonly cause: string; body: unknown }
  /** Not executed: the bank issued no token, or the call was not sent. */
  | { readonly kind: 'refused'; readonly cause: string }
  /** Not executed: wrong credentials, or an address that is not on the bank's allow list. */
  | { readonly kind: 'denied'; readonly cause: string }
  /** The bank may have executed it. */
  | { readonly kind: 'unclear'; readonly cause: string }

type Responded = Extract<NinePsbResponse, { kind: 'responded' }>

/** The bank's API, with authentication. */
export interface NinePsbCalls {
  post(path: string, body: unknown, signal: AbortSignal): Promise<NinePsbResponse>
}

interface CallsOptions {
  readonly settings: NinePsbSettings
  readonly http: BankHttp
  readonly clock: Clock
  readonly onAccess?: OnAccess
}

/** For wrong credentials, an expired token, and an address that is not on the bank's allow list. */
const UNAUTHENTICATED = 'S1'
/** An error of the bank itself, which may pass. */
const SYSTEM_ERROR = '99'
const TOKEN_MARGIN_SECONDS = 60
const JSON_HEADERS = { 'content-type': 'application/json', accept: 'application/json' }

export function createCalls(options: CallsOptions): NinePsbCalls {
  const { settings, http, clock, onAccess } = options
  const accessToken = createAccessToken({
    fetch: (signal) => authenticate(settings, http, signal),
    clock,
    marginSeconds: TOKEN_MARGIN_SECONDS,
    timeoutMs: settings.timeoutMs,
  })
  const send = async (
    token: string,
    path: string,
    body: unknown,
    signal: AbortSignal,
  ): Promise<NinePsbResponse> => {
    const headers = { ...JSON_HEADERS, authorization: `Bearer ${token}` }
    const request = { method: 'POST', path, headers, body: JSON.stringify(body), signal } as const
    try {
      return classify(await http.send(request))
    } catch (error) {
      if (!(error instanceof BankUnreachableError)) throw error
      return { kind: error.sent ? 'unclear' : 'refused', cause: error.message }
    }
  }
  const authenticated = async (
    path: string,
    body: unknown,
    signal: AbortSignal,
  ): Promise<NinePsbResponse> => {
    try {
      const token = await accessToken.get()
      const response = await send(token, path, body, signal)
      if (!isUnauthenticated(response)) return response
      // Retry only once: the code also means an address that is not allowed, which persists.
      const retried = await send(await accessToken.renew(token), path, body, signal)
      return isUnauthenticated(retried) ? { kind: 'denied', cause: retried.cause } : retried
    } catch (error) {
      if (!(error instanceof BankUnreachableError)) throw error
      const kind = error instanceof AccessDeniedError ? 'denied' : 'refused'
      return { kind, cause: `authenticate: ${error.message}` }
    }
  }
  return {
    async post(path, body, signal) {
      const response = await authenticated(path, body, signal)
      if (response.kind === 'denied') onAccess?.(response.cause)
      // Without a code, the response is not from the bank's application.
      if (response.kind === 'responded' && response.code !== '') onAccess?.(undefined)
      return response
    },
  }
}

function classify({ status, text }: BankResponse): Responded {
  const body = parseBankJson(text)
  const code = getPath(body, 'code')
  const message = plainText(getPath(body, 'message'), 200)
  const cause = `HTTP ${status}, code ${JSON.stringify(plainText(code, 20))}: ${message}`
  // A gateway in front of the bank may reject the call without the bank's code.
  const isRejected = code === '' && (status === 401 || status === 403)
  return { kind: 'responded', code: isRejected ? UNAUTHENTICATED : code, cause, body }
}

function isUnauthenticated(response: NinePsbResponse): boolean {
  return response.kind === 'responded' && response.code === UNAUTHENTICATED
}

async function authenticate(
  { publicKey, privateKey, authenticatePath: path }: NinePsbSettings,
  http: BankHttp,
  signal: AbortSignal,
): Promise<IssuedToken> {
  const body = JSON.stringify({ publickey: publicKey, privatekey: privateKey })
  const response = await http.send({ method: 'POST', path, headers: JSON_HEADERS, body, signal })
  const issued = parseBankJson(response.text)
  const token = getPath(issued, 'access_token')
  const { code, cause } = classify(response)
  if (code !== '00' || !/^[\x21-\x7e]+$/.test(token)) {
    // The request has nothing but the operator's settings.
    const isDenied = response.status < 500 && !['', '00', SYSTEM_ERROR].includes(code)
    throw isDenied ? new AccessDeniedError(cause) : new BankUnreachableError(cause, true)
  }
  const seconds = Number(getPath(issued, 'expires_in'))
  // Assume a short lifetime if none is given; a rejected call renews the token in any case.
  return { token, expiresInSeconds: seconds > 0 && seconds < 1e6 ? seconds : 300 }
}
