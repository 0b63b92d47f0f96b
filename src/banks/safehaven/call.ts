import type { Clock } from '../../core/clock.ts'
import { type BankFields, fieldsOf, textOf } from '../bank-fields.ts'
import { getPath } from '../get-path.ts'
import { createAccessToken } from '../http/access-token.ts'
import {
  type BankAnswer,
  type BankHttp,
  type BankRequest,
  BankUnreachable,
} from '../http/bank-http.ts'
import { parseBankJson } from '../http/bank-json.ts'
import { plainText } from '../plain-text.ts'
import { signClientAssertion } from './client-assertion.ts'
import type { SafeHavenSettings } from './settings.ts'

/** What Safe Haven made of a call. */
export type SafeHavenAnswer =
  | { readonly kind: 'done'; readonly cause: string; readonly body: BankFields }
  /** It decided against it, and nothing was done. `code` is the HTTP code, or the body's. */
  | { readonly kind: 'refused'; readonly code: number; readonly cause: string }
  /** The call did not get to it: nothing was done. */
  | { readonly kind: 'unreached'; readonly cause: string }
  /** It is not known whether the call was carried out. */
  | { readonly kind: 'unclear'; readonly cause: string }

export type SafeHavenCall = (
  method: BankRequest['method'],
  path: string,
  fields: Readonly<Record<string, unknown>> | undefined,
  signal: AbortSignal,
) => Promise<SafeHavenAnswer>

interface Options {
  readonly settings: SafeHavenSettings
  readonly http: BankHttp
  readonly clock: Clock
}

/** How long before its end a token is renewed. */
const MARGIN_SECONDS = 60

const ASSERTION_TYPE = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'

/** Authenticates and sends; again once with another token. It throws for defects of ours alone. */
export function createSafeHavenCall({ settings, http, clock }: Options): SafeHavenCall {
  const token = createAccessToken({
    clock,
    marginSeconds: MARGIN_SECONDS,
    timeoutMs: settings.timeoutMs,
    fetch: (signal) => fetchToken({ settings, http, clock }, signal),
  })
  const send = async (
    request: Omit<BankRequest, 'headers'>,
    credentials: string,
  ): Promise<SafeHavenAnswer> => {
    const [clientId = '', bearer = ''] = credentials.split(' ', 2)
    const headers = {
      Accept: 'application/json',
      Authorization: `Bearer ${bearer}`,
      ClientID: clientId,
      ...(request.body !== undefined && { 'Content-Type': 'application/json' }),
    }
    try {
      return readAnswer(await http.send({ ...request, headers }))
    } catch (error) {
      if (!(error instanceof BankUnreachable)) throw error
      return { kind: error.sent ? 'unclear' : 'unreached', cause: error.message }
    }
  }
  return async (method, path, fields, signal) => {
    const body = fields && { body: JSON.stringify(fields) }
    const request = { method, path, signal, ...body }
    const first = await whenHeld(token.get())
    if (first.kind !== 'held') return first
    const answer = await send(request, first.credentials)
    if (answer.kind !== 'refused' || ![401, 403].includes(answer.code)) return answer
    const second = await whenHeld(token.renew(first.credentials))
    return second.kind === 'held' ? send(request, second.credentials) : second
  }
}

type Held = { readonly kind: 'held'; readonly credentials: string }

/** Without a token no call was made, whatever became of the token's own. */
async function whenHeld(
  token: Promise<string>,
): Promise<Held | { readonly kind: 'unreached'; readonly cause: string }> {
  try {
    return { kind: 'held', credentials: await token }
  } catch (error) {
    if (!(error instanceof BankUnreachable)) throw error
    return { kind: 'unreached', cause: `no token: ${error.message}` }
  }
}

/** @returns as the token the client id that goes with it, a space, and the bearer token */
async function fetchToken({ settings, http, clock }: Options, signal: AbortSignal) {
  const assertion = {
    ...settings,
    issuer: settings.companyUrl,
    lifeSeconds: settings.assertionSeconds,
  }
  const fields = {
    grant_type: 'client_credentials',
    client_id: settings.clientId,
    client_assertion: signClientAssertion(assertion, clock.now()),
    client_assertion_type: ASSERTION_TYPE,
  }
  const [contentType, body] =
    settings.tokenForm === 'form'
      ? ['application/x-www-form-urlencoded', new URLSearchParams(fields).toString()]
      : ['application/json', JSON.stringify(fields)]
  const headers = { Accept: 'application/json', 'Content-Type': contentType }
  const request = { method: 'POST' as const, path: settings.tokenPath, headers, body, signal }
  const { status, text } = await http.send(request)
  const answer = fieldsOf(parseBankJson(text)) ?? {}
  const bearer = textOf(answer, 'access_token')
  const clientId = textOf(answer, 'ibs_client_id')
  const expiresInSeconds = Number(textOf(answer, 'expires_in') || Number.NaN)
  if (!isToken(bearer) || !isToken(clientId) || !(expiresInSeconds > 0)) {
    throw new BankUnreachable(`HTTP ${status} without a usable token`, true)
  }
  return { token: `${clientId} ${bearer}`, expiresInSeconds }
}

/** Whether it may stand in a header. */
function isToken(text: string): boolean {
  return /^[\x21-\x7e]{1,8192}$/.test(text)
}

/** Failures come as HTTP codes, and inside HTTP 200 as `statusCode`. */
function readAnswer({ status, text }: BankAnswer): SafeHavenAnswer {
  const body = fieldsOf(parseBankJson(text))
  const inner = body ? textOf(body, 'statusCode') : ''
  const code = status < 300 && /^\d{3}$/.test(inner) ? Number(inner) : status
  const cause =
    `${code} ${body ? plainText(getPath(body, 'message') || getPath(body, 'error'), 200) : ''}`.trim()
  if (code >= 400 && code < 500 && code !== 408) return { kind: 'refused', code, cause }
  if (code >= 200 && code < 300 && body) return { kind: 'done', cause, body }
  return { kind: 'unclear', cause: body ? cause : `HTTP ${status} without a JSON object` }
}
