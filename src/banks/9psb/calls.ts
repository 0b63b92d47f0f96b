import type { Clock } from '../../core/clock.ts'
import { getPath } from '../get-path.ts'
import { createAccessToken, type IssuedToken } from '../http/access-token.ts'
import { type BankHttp, BankUnreachable } from '../http/bank-http.ts'
import { parseBankJson } from '../http/bank-json.ts'
import { plainText } from '../plain-text.ts'
import type { NinePsbSettings } from './settings.ts'

/** What came of a call. */
export type NinePsbAnswer =
  /** `code` is empty when the bank said none. */
  | { readonly kind: 'answered'; readonly code: string; readonly cause: string; body: unknown }
  /** The bank did nothing of it: the call was not let in, or not sent. */
  | { readonly kind: 'refused'; readonly cause: string }
  /** The bank may have done it. */
  | { readonly kind: 'lost'; readonly cause: string }

/** Calls the bank's methods, authenticated. */
export interface NinePsbCalls {
  post(path: string, body: unknown, signal: AbortSignal): Promise<NinePsbAnswer>
}

interface CallsOptions {
  readonly settings: NinePsbSettings
  readonly http: BankHttp
  readonly clock: Clock
}

/** Code of wrong credentials, of an ended token, and of an address that is not on the bank's list. */
const NOT_LET_IN = 'S1'
const TOKEN_MARGIN_SECONDS = 60
const JSON_HEADERS = { 'content-type': 'application/json', accept: 'application/json' }

/** The bank issued no token. */
class TokenRefused extends Error {
  override readonly name = 'TokenRefused'
}

export function createCalls(options: CallsOptions): NinePsbCalls {
  const { settings, http, clock } = options
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
  ): Promise<NinePsbAnswer> => {
    const headers = { ...JSON_HEADERS, authorization: `Bearer ${token}` }
    const request = { method: 'POST', path, headers, body: JSON.stringify(body), signal } as const
    try {
      return judge(await http.send(request))
    } catch (error) {
      if (!(error instanceof BankUnreachable)) throw error
      return { kind: error.sent ? 'lost' : 'refused', cause: error.message }
    }
  }
  return {
    async post(path, body, signal) {
      try {
        const token = await accessToken.get()
        const answer = await send(token, path, body, signal)
        if (!isNotLetIn(answer)) return answer
        // Once: the same code tells of an address that is not on the list, and that stays so.
        const again = await send(await accessToken.renew(token), path, body, signal)
        return isNotLetIn(again) ? { kind: 'refused', cause: again.cause } : again
      } catch (error) {
        if (error instanceof TokenRefused || error instanceof BankUnreachable) {
          return { kind: 'refused', cause: `authenticate: ${error.message}` }
        }
        throw error
      }
    },
  }
}

function judge({ status, text }: { status: number; text: string }): NinePsbAnswer {
  const body = parseBankJson(text)
  const code = getPath(body, 'code')
  const message = plainText(getPath(body, 'message'), 200)
  const cause = `HTTP ${status}, code ${JSON.stringify(plainText(code, 20))}: ${message}`
  // A door before the bank's program may refuse without the bank's own words.
  const shut = code === '' && (status === 401 || status === 403)
  return { kind: 'answered', code: shut ? NOT_LET_IN : code, cause, body }
}

function isNotLetIn(answer: NinePsbAnswer): boolean {
  return answer.kind === 'answered' && answer.code === NOT_LET_IN
}

async function authenticate(
  { publicKey, privateKey, authenticatePath: path }: NinePsbSettings,
  http: BankHttp,
  signal: AbortSignal,
): Promise<IssuedToken> {
  const body = JSON.stringify({ publickey: publicKey, privatekey: privateKey })
  const answer = await http.send({ method: 'POST', path, headers: JSON_HEADERS, body, signal })
  const issued = parseBankJson(answer.text)
  const token = getPath(issued, 'access_token')
  if (getPath(issued, 'code') !== '00' || !/^[\x21-\x7e]+$/.test(token)) {
    const cause = judge(answer)
    throw new TokenRefused(cause.cause)
  }
  const seconds = Number(getPath(issued, 'expires_in'))
  // Without a readable end it is good for little; the next refusal renews it in any case.
  return { token, expiresInSeconds: seconds > 0 && seconds < 1e6 ? seconds : 300 }
}
