import { sign } from 'node:crypto'
import { type BankFields, fieldsOf, getPath, plainText, textOf } from '../bank-fields.ts'
import { createAccessToken } from '../http/access-token.ts'
import {
  AccessDeniedError,
  type BankRequest,
  type BankResponse,
  BankUnreachableError,
  type ConnectorOptions,
  parseBankJson,
} from '../http/bank-http.ts'
import type { SafeHavenSettings } from './settings.ts'

/** The result of a call. */
export type SafeHavenResponse =
  | { readonly kind: 'success'; readonly cause: string; readonly body: BankFields }
  /** Rejected and not executed. `code` is the HTTP status or the body's `statusCode`. */
  | {
      readonly kind: 'refused'
      readonly code: number
      readonly cause: string
      /** Undefined if it is not a JSON object: a gateway may have responded, not Safe Haven. */
      readonly body: BankFields | undefined
    }
  /** The call did not reach Safe Haven and was not executed. */
  | { readonly kind: 'unreached'; readonly cause: string }
  /** Not executed: Safe Haven issued no token for our credentials, or refused new tokens too. */
  | {
      readonly kind: 'denied'
      readonly cause: string
      /** Whether the call itself was refused. */
      readonly sent: boolean
    }
  /** Safe Haven may have executed the call. */
  | { readonly kind: 'unclear'; readonly cause: string }

export type SafeHavenCall = (
  method: BankRequest['method'],
  path: string,
  fields: Readonly<Record<string, unknown>> | undefined,
  signal: AbortSignal,
) => Promise<SafeHavenResponse>

type Options = ConnectorOptions<SafeHavenSettings>

/** How long before its expiry a token is renewed. */
const MARGIN_SECONDS = 60

const ASSERTION_TYPE = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'

/** Authenticates and sends; retries once with a new token. Throws only for our own defects. */
export function createSafeHavenCall(options: Options): SafeHavenCall {
  const { settings, http, clock, onAccess } = options
  const accessToken = createAccessToken({
    clock,
    marginSeconds: MARGIN_SECONDS,
    timeoutMs: settings.timeoutMs,
    fetch: (signal) => fetchToken(options, signal),
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
  const authenticated = async (
    request: Omit<BankRequest, 'headers'>,
  ): Promise<SafeHavenResponse> => {
    const token = await resolveToken(accessToken.get())
    if (token.kind !== 'token') return token
    const response = await send(request, token.credentials)
    if (!isUnauthenticated(response)) return response
    // The call itself was sent, and denied.
    const denied = { kind: 'denied', cause: response.cause, sent: true } as const
    const renewed = await resolveToken(accessToken.renew(token.credentials))
    if (renewed.kind !== 'token') return denied
    const retried = await send(request, renewed.credentials)
    if (retried.kind === 'unreached') return denied
    return isUnauthenticated(retried) ? { ...denied, cause: retried.cause } : retried
  }
  return async (method, path, fields, signal) => {
    const body = fields && { body: JSON.stringify(fields) }
    const response = await authenticated({ method, path, signal, ...body })
    if (response.kind === 'denied') onAccess(response.cause)
    if (response.kind === 'success' || isRefused(response)) onAccess(undefined)
    return response
  }
}

/** The status of a rate limit, which says nothing about the token or an account. */
const TOO_MANY_REQUESTS = 429

export const isRefused = (response: SafeHavenResponse) =>
  response.kind === 'refused' && response.code !== TOO_MANY_REQUESTS

const isUnauthenticated = (response: SafeHavenResponse) =>
  response.kind === 'refused' && [401, 403].includes(response.code)

type Token = { readonly kind: 'token'; readonly credentials: string }

/** Returns a token, or the result of the call, which is not sent without a token. */
async function resolveToken(
  token: Promise<string>,
): Promise<Token | Extract<SafeHavenResponse, { kind: 'unreached' | 'denied' }>> {
  try {
    return { kind: 'token', credentials: await token }
  } catch (error) {
    if (!(error instanceof BankUnreachableError)) throw error
    const cause = `no token: ${error.message}`
    return error instanceof AccessDeniedError
      ? { kind: 'denied', cause, sent: false }
      : { kind: 'unreached', cause }
  }
}

/** @returns the token as `<client id> <bearer token>`, as calls need both */
async function fetchToken({ settings, http, clock }: Options, signal: AbortSignal) {
  const fields = {
    grant_type: 'client_credentials',
    client_id: settings.clientId,
    client_assertion: signClientAssertion(settings, clock.now()),
    client_assertion_type: ASSERTION_TYPE,
  }
  const [contentType, body] =
    settings.tokenForm === 'form'
      ? ['application/x-www-form-urlencoded', new URLSearchParams(fields).toString()]
      : ['application/json', JSON.stringify(fields)]
  const headers = { Accept: 'application/json', 'Content-Type': contentType }
  const request = { method: 'POST' as const, path: settings.tokenPath, headers, body, signal }
  const response = await http.send(request)
  const issued = fieldsOf(parseBankJson(response.text)) ?? {}
  const bearer = textOf(issued, 'access_token')
  const clientId = textOf(issued, 'ibs_client_id')
  const expiresInSeconds = Number(textOf(issued, 'expires_in') || Number.NaN)
  if (!isToken(bearer) || !isToken(clientId) || !(expiresInSeconds > 0)) {
    const refusal = parseResponse(response)
    // The request contains only the operator's settings, so a refusal means that they are wrong.
    if (isRefused(refusal)) throw new AccessDeniedError(refusal.cause)
    throw new BankUnreachableError(`HTTP ${response.status} without a usable token`, true)
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
  if (code >= 400 && code < 500 && code !== 408) return { kind: 'refused', code, cause, body }
  if (code >= 200 && code < 300 && body) return { kind: 'success', cause, body }
  return { kind: 'unclear', cause: body ? cause : `HTTP ${status} without a JSON object` }
}

/** Whether the text is allowed in a path. */
export function isId(text: string): boolean {
  return /^[A-Za-z0-9_-]{1,64}$/.test(text)
}

/** The statuses of a transfer that was not made, in lower case. */
export const FAILED_STATUSES = ['failed', 'declined', 'rejected', 'cancelled', 'canceled']

/** The number of pages of a list; undefined if the response does not state it. */
export function pagesOf(body: BankFields): number | undefined {
  const text = textOf(fieldsOf(body['pagination']) ?? {}, 'pages')
  return /^\d{1,6}$/.test(text) ? Number(text) : undefined
}

/** Returns the JWT (RS256) used in place of a client secret. Source: RFC 7523, section 3. */
function signClientAssertion(settings: SafeHavenSettings, nowMs: number): string {
  const iat = Math.floor(nowMs / 1_000)
  const claims = {
    iss: settings.companyUrl,
    sub: settings.clientId,
    aud: settings.audience,
    iat,
    exp: iat + settings.assertionSeconds,
  }
  const text = `${base64url({ alg: 'RS256', typ: 'JWT' })}.${base64url(claims)}`
  const signature = sign('RSA-SHA256', Buffer.from(text), settings.privateKey)
  return `${text}.${signature.toString('base64url')}`
}

function base64url(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url')
}
