import type { Clock } from '../../core/clock.ts'

/** One request to a bank. */
export interface BankRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** Relative to the bank's base URL, without a leading slash; includes the query. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** Sent unchanged; the caller sets the content type. */
  readonly body?: string
  readonly signal: AbortSignal
}

/** A bank's response. No status counts as an error here. */
export interface BankResponse {
  readonly status: number
  /** At most 1 MiB. */
  readonly text: string
}

/** Thrown if the bank did not respond. */
export class BankUnreachableError extends Error {
  override readonly name = 'BankUnreachableError'
  /** Whether the bank may have received the request. */
  readonly sent: boolean

  constructor(text: string, sent: boolean, cause?: unknown) {
    super(text, { cause })
    this.sent = sent
  }
}

/** Thrown if the bank does not accept our credentials, our signature or our address, and executed nothing. */
export class AccessDeniedError extends BankUnreachableError {
  constructor(text: string) {
    super(text, false)
  }
}

/** Thrown if the bank responds, but does not list the payments of an account; it may list those of other accounts. */
export class NotListedError extends Error {
  override readonly name = 'NotListedError'
}

/** Called with the reason if the bank denied a call access, and with undefined after a call that had access. */
export type OnAccess = (denial: string | undefined) => void

/** Sends requests to one bank, limited in time and in concurrency. */
export interface BankHttp {
  /** @throws BankUnreachableError */
  send(request: BankRequest): Promise<BankResponse>
}

/** One API of a bank. */
export interface BankApi {
  readonly http: BankHttp
  readonly onAccess: OnAccess
}

/** The dependencies of a connector. */
export interface ConnectorParts extends BankApi {
  /** Connects to another API of the same bank, which has its own circuit breaker, and its own access. */
  readonly apiAt: (baseUrl: string) => BankApi
  readonly clock: Clock
  readonly random: (bytes: number) => Buffer
  /** Logs a warning. The text must not contain secrets. */
  readonly warn: (text: string) => void
}

export type ConnectorOptions<Settings> = ConnectorParts & { readonly settings: Settings }

/**
 * Parses a bank's JSON. Each number becomes the text of its token, so that money never passes
 * through a float: `{"amount":120.10}` → `{amount: '120.10'}`.
 *
 * @returns undefined for invalid JSON
 */
export function parseBankJson(text: string): unknown {
  try {
    return JSON.parse(text, withTokens as (key: string, value: unknown) => unknown)
  } catch {
    return undefined
  }
}

/** The types of `JSON.parse` do not have the third argument yet. */
function withTokens(_key: string, value: unknown, context: { readonly source: string }): unknown {
  return typeof value === 'number' ? context.source : value
}
