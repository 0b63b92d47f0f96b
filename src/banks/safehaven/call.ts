import type { Clock } from '../../core/clock.ts'
import { type BankFields, fieldsOf, textOf } from '../bank-fields.ts'
import { getPath } from '../get-path.ts'
import { createAccessToken } from '../http/access-token.ts'
import {
  type BankHttp,
  type BankRequest,
  type BankResponse,
  BankUnreachableError,
} from '../http/bank-http.ts'
import { parseBankJson } from '../http/bank-json.ts'
import { plainText } from '../plain-text.ts'
import { signClientAssertion } from './client-assertion.ts'
import type { SafeHavenSettings } from './settings.ts'

/** The result of a call. */
export type SafeHavenResponse =
  | { readonly kind: 'success'; readonly cause: string; readonly body: BankFields }
  /** Rejected and not executed. `code` is the HTTP status or the body's `statusCode`. */
  | { readonly kind: 'refused'; readonly code: number; readonly cause: string }
  /** The call did not reach Safe Haven and was not executed. */
  | { readonly kind: 'unreached'; readonly cause: string }
  /** Safe Haven may have executed the call. */
  | { readonly kind: 'unclear'; readonly cause: string }

export type SafeHavenCall = (
  method: BankRequest['method'],
  path: string,
  fields: Readonly<Record<string, unknown>> | undefined,
  signal: AbortSignal,
) => Promise<SafeHavenResponse>

interface Options {
  readonly settings: SafeHavenSettings
  readonly http: BankHttp
  readonly clock: Clock
}

/** How long before its expiry a token is renewed. */
const MARGIN_SECONDS = 60

const ASSERTION_TYPE = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'

/** Authenticates and sends; retries once with a new token. Throws only for our own defects. */
export function createSafeHavenCall({ settings, http, clock }: Options): SafeHavenCall {
  const accessToken = createAccessToken({
    clock,
    marginSeconds: MARGIN_SECONDS,
    timeoutMs: settings.timeoutMs,
    fetch: (signal) => fetchToken({ settings, http, clock }, signal),
  })
  const send = async (
    request: Omit<BankRequest, 'headers'>,
    credentials: string,
  ): Promise<SafeHavenResponse> => {
    const [clientId = '', bearer = ''] = credentials.split(' ', 2)
    const headers = {
      Accept: 'application/json',
      Authorization: `Bearer ${bearer}`,
      ClientID: clientId,
      ...(request.body !== undefined && { 'Content-Type': 'application/json' }),
    }
    try {
      return parseResponse(await http.send({ ...request, headers }))
    } catch (error) {
      if (!(error instanceof BankUnreachableError)) throw error
      return { kind: error.sent ? 'unclear' : 'unreached', cause: error.message }
    }
  }
  return async (method, path, fields, signal) => {
    const body = fields && { body: JSON.stringify(fields) }
    const request = { method, path, signal, ...body }
    const token = await resolveToken(accessToken.get())
    if (token.kind !== 'token') return token
    const response = await send(request, token.credentials)
    if (response.kind !== 'refused' || ![401, 403].includes(response.code)) return response
    const renewed = await resolveToken(accessToken.renew(token.credentials))
    return renewed.kind === 'token' ? send(request, renewed.credentials) : renewed
  }
}

type Token = { readonly kind: 'token'; readonly credentials: string }

/** Without a token the call is not sent, so any failure to get one is `unreached`. */
async function resolveToken(
  token: Promise<string>,
): Promise<Token | { readonly kind: 'unreached'; readonly cause: string }> {
  try {
    return { kind: 'token', credentials: await token }
  } catch (error) {
    if (!(error instanceof BankUnreachableError)) throw error
    return { kind: 'unreached', cause: `no token: ${error.message}` }
  }
}

/** @returns the token as `<client id> <bearer token>`, as calls need both */
async function fetchToken({ settings, http, clock }: Options, signal: AbortSignal) {
  const assertion = {
    ...settings,
    issuer: settings.companyUrl,
    lifetimeSeconds: settings.assertionSeconds,
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
  const issued = fieldsOf(parseBankJson(text)) ?? {}
  const bearer = textOf(issued, 'access_token')
  const clientId = textOf(issued, 'ibs_client_id')
  const expiresInSeconds = Number(textOf(issued, 'expires_in') || Number.NaN)
  if (!isToken(bearer) || !isToken(clientId) || !(expiresInSeconds > 0)) {
    throw new BankUnreachableError(`HTTP ${status} without a usable token`, true)
  }
  return { token: `${clientId} ${bearer}`, expiresInSeconds }
}

/** Whether the text is allowed in a header. */
function isToken(text: string): boolean {
  return /^[\x21-\x7e]{1,8192}$/.test(text)
}

/** Failures arrive as HTTP statuses, or as `statusCode` inside HTTP 200. */
function parseResponse({ status, text }: BankResponse): SafeHavenResponse {
  const body = fieldsOf(parseBankJson(text))
  const statusCode = body ? textOf(body, 'statusCode') : ''
  const code = status < 300 && /^\d{3}$/.test(statusCode) ? Number(statusCode) : status
  const cause =
    `${code} ${body ? plainText(getPath(body, 'message') || getPath(body, 'error'), 200) : ''}`.trim()
  if (code >= 400 && code < 500 && code !== 408) return { kind: 'refused', code, cause }
  if (code >= 200 && code < 300 && body) return { kind: 'success', cause, body }
  return { kind: 'unclear', cause: body ? cause : `HTTP ${status} without a JSON object` }
}
