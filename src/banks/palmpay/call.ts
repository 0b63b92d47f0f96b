import type { Clock } from '../../core/clock.ts'
import { type BankFields, fieldsOf, getPath } from '../bank-fields.ts'
import {
  type BankHttp,
  type BankResponse,
  BankUnreachableError,
  type OnAccess,
} from '../http/bank-http.ts'
import { parseBankJson } from '../http/bank-json.ts'
import { plainText } from '../plain-text.ts'
import type { PalmPaySettings } from './settings.ts'
import { signFields } from './signature.ts'

/** The result of a call. */
export type PalmPayResponse =
  /** PalmPay responded; `code` is its `respCode`. */
  | {
      readonly kind: 'responded'
      readonly code: string
      /** Code and message, for the log. */
      readonly cause: string
      readonly fields: BankFields
    }
  /** The call did not reach PalmPay and was not executed. */
  | { readonly kind: 'refused'; readonly cause: string }
  /** Not executed: PalmPay does not accept our signature, or does not list our address. */
  | { readonly kind: 'denied'; readonly cause: string }
  /** PalmPay may have executed the call. */
  | { readonly kind: 'unclear'; readonly cause: string }

export const SUCCESS = '00000000'

export type PalmPayCall = (
  path: string,
  fields: Readonly<Record<string, unknown>>,
  signal: AbortSignal,
) => Promise<PalmPayResponse>

interface Options {
  readonly settings: PalmPaySettings
  readonly http: BankHttp
  readonly clock: Clock
  readonly random: (bytes: number) => Buffer
  readonly onAccess?: OnAccess
}

/** An unknown app or a wrong signature; an address that is not listed. */
const DENIED_CODES = ['OPEN_GW_000008', 'OPEN_GW_000012']

/** Statuses of a gateway that did not forward the call. */
const REJECTED_STATUSES = [404, 429]
const DENIED_STATUSES = [401, 403]

/** Signs and sends a call. Throws only for our own defects. */
export function createPalmPayCall(options: Options): PalmPayCall {
  const { settings, http, clock, random, onAccess } = options
  return async (path, fields, signal) => {
    const body = {
      ...fields,
      requestTime: clock.now(),
      nonceStr: random(16).toString('hex'),
      version: settings.version,
    }
    const headers = {
      Accept: 'application/json',
      Authorization: `Bearer ${settings.appId}`,
      'Content-Type': 'application/json;charset=UTF-8',
      CountryCode: settings.countryCode,
      Signature: signFields(signedTexts(body), settings.privateKey),
    }
    try {
      const request = { method: 'POST' as const, path, headers, body: JSON.stringify(body), signal }
      const response = parseResponse(await http.send(request))
      if (response.kind === 'denied') onAccess?.(response.cause)
      if (response.kind === 'responded') onAccess?.(undefined)
      return response
    } catch (error) {
      if (!(error instanceof BankUnreachableError)) throw error
      return { kind: error.sent ? 'unclear' : 'refused', cause: error.message }
    }
  }
}

/** The fields of a request in signed form: values other than strings are signed as JSON. */
function signedTexts(body: Readonly<Record<string, unknown>>): Record<string, string> {
  const texts: Record<string, string> = {}
  for (const [name, value] of Object.entries(body)) {
    if (value === null || value === undefined) continue
    texts[name] = typeof value === 'string' ? value : JSON.stringify(value)
  }
  return texts
}

function parseResponse({ status, text }: BankResponse): PalmPayResponse {
  const body = fieldsOf(parseBankJson(text))
  const code = body ? plainText(getPath(body, 'respCode'), 40) : ''
  if (body && code !== '') {
    const cause = `${code} ${plainText(getPath(body, 'respMsg'), 200)}`.trim()
    if (DENIED_CODES.includes(code)) return { kind: 'denied', cause }
    return { kind: 'responded', code, cause, fields: fieldsOf(body['data']) ?? {} }
  }
  const cause = `HTTP ${status} without a respCode`
  if (DENIED_STATUSES.includes(status)) return { kind: 'denied', cause }
  return { kind: REJECTED_STATUSES.includes(status) ? 'refused' : 'unclear', cause }
}
