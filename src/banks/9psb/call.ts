import type { Clock } from '../../core/clock.ts'
import { createAccessToken, type IssuedToken } from '../http/access-token.ts'
import {
  AccessDeniedError,
  type BankApi,
  type BankResponse,
  BankUnreachableError,
} from '../http/bank-http.ts'

/** The result of a call. */
export type NinePsbResponse =
  /** `code` is empty if the bank sent none. */
  | {
      readonly kind: 'responded'
      readonly code: string
      readonly cause: string
      readonly body: unknown
    }
  /** Not executed: the bank issued no token, or the call was not sent. */
  | { readonly kind: 'refused'; readonly cause: string }
  /**
   * Not executed: wrong credentials, or an address that is not on the bank's allow list. Not sent if
   * the bank already issued no token.
   */
  | { readonly kind: 'denied'; readonly cause: string; readonly sent: boolean }
  /** The bank may have executed it. */
  | { readonly kind: 'unclear'; readonly cause: string }

export interface CallsOptions extends BankApi {
  readonly clock: Clock
  readonly timeoutMs: number
  /** @throws AccessDeniedError if the bank does not accept the credentials; BankUnreachableError */
  readonly authenticate: (signal: AbortSignal) => Promise<IssuedToken>
  /** Reads a response; `denied` if the bank does not accept the token, which may have expired. */
  readonly classify: (response: BankResponse) => NinePsbResponse
}

const TOKEN_MARGIN_SECONDS = 60

export const JSON_HEADERS = { 'content-type': 'application/json', accept: 'application/json' }

/** A function that calls the API of the bank, with authentication. */
export function createCall(options: CallsOptions) {
  const { http, clock, timeoutMs, onAccess, authenticate, classify } = options
  const accessToken = createAccessToken({
    fetch: authenticate,
    clock,
    marginSeconds: TOKEN_MARGIN_SECONDS,
    timeoutMs,
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
    let denied: NinePsbResponse | undefined
    try {
      const token = await accessToken.get()
      const response = await send(token, path, body, signal)
      // Retry only once: the bank also denies an address that is not allowed, which persists.
      if (response.kind !== 'denied') return response
      denied = response
      const again = await send(await accessToken.renew(token), path, body, signal)
      return again.kind === 'refused' ? denied : again
    } catch (error) {
      if (!(error instanceof BankUnreachableError)) throw error
      // The call itself was sent, and denied.
      if (denied !== undefined) return denied
      const cause = `authenticate: ${error.message}`
      return error instanceof AccessDeniedError
        ? { kind: 'denied', cause, sent: false }
        : { kind: 'refused', cause }
    }
  }
  return async (path: string, body: unknown, signal: AbortSignal): Promise<NinePsbResponse> => {
    const response = await authenticated(path, body, signal)
    if (response.kind === 'denied') onAccess(response.cause)
    // Without a code, the response is not from the bank's application.
    if (response.kind === 'responded' && response.code !== '') onAccess(undefined)
    return response
  }
}

/** The lifetime of a token. It is short if the bank states none; a rejected call renews the token anyway. */
export function lifetimeSeconds(text: string): number {
  const seconds = Number(text)
  return seconds > 0 && seconds < 1e6 ? seconds : 300
}
