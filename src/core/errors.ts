/** The stable reasons that callers see, each with its gRPC code and HTTP status. */
export const REASONS = {
  malformed_json: ['INVALID_ARGUMENT', 400],
  malformed_request: ['INVALID_ARGUMENT', 400],
  validation_failed: ['INVALID_ARGUMENT', 422],
  invalid_cursor: ['INVALID_ARGUMENT', 422],
  stale_cursor: ['FAILED_PRECONDITION', 409],
  expired_cursor: ['OUT_OF_RANGE', 410],
  unauthorized: ['UNAUTHENTICATED', 401],
  permission_denied: ['PERMISSION_DENIED', 403],
  address_not_allowed: ['PERMISSION_DENIED', 403],
  not_found: ['NOT_FOUND', 404],
  unknown_path: ['UNIMPLEMENTED', 404],
  method_not_allowed: ['UNIMPLEMENTED', 405],
  request_timeout: ['CANCELLED', 408],
  duplicate_reference: ['ALREADY_EXISTS', 409],
  duplicate_request: ['ALREADY_EXISTS', 409],
  duplicate_webhook: ['ALREADY_EXISTS', 409],
  duplicate_key: ['ALREADY_EXISTS', 409],
  already_reversed: ['FAILED_PRECONDITION', 409],
  not_reversible: ['FAILED_PRECONDITION', 409],
  imported_transaction: ['FAILED_PRECONDITION', 409],
  requery_unsupported: ['FAILED_PRECONDITION', 409],
  not_sandbox: ['FAILED_PRECONDITION', 409],
  key_inactive: ['FAILED_PRECONDITION', 409],
  account_pending: ['FAILED_PRECONDITION', 409],
  account_in_review: ['FAILED_PRECONDITION', 409],
  account_not_pending: ['FAILED_PRECONDITION', 409],
  payment_resolved: ['FAILED_PRECONDITION', 409],
  payment_unconfirmed: ['FAILED_PRECONDITION', 409],
  bank_refused: ['FAILED_PRECONDITION', 409],
  bank_key_required: ['FAILED_PRECONDITION', 409],
  not_held: ['FAILED_PRECONDITION', 409],
  insufficient_balance: ['FAILED_PRECONDITION', 409],
  name_mismatch: ['INVALID_ARGUMENT', 422],
  payouts_paused: ['FAILED_PRECONDITION', 409],
  own_payout: ['PERMISSION_DENIED', 403],
  payout_not_pending: ['FAILED_PRECONDITION', 409],
  resend_not_safe: ['FAILED_PRECONDITION', 409],
  refund_exceeds_payment: ['FAILED_PRECONDITION', 409],
  not_refundable: ['FAILED_PRECONDITION', 409],
  endpoint_disabled: ['FAILED_PRECONDITION', 409],
  no_next_secret: ['FAILED_PRECONDITION', 409],
  event_expired: ['FAILED_PRECONDITION', 409],
  not_rehearsable: ['FAILED_PRECONDITION', 409],
  delivery_completed: ['FAILED_PRECONDITION', 409],
  payload_too_large: ['RESOURCE_EXHAUSTED', 413],
  unsupported_media_type: ['INVALID_ARGUMENT', 415],
  rate_limited: ['RESOURCE_EXHAUSTED', 429],
  too_many_endpoints: ['RESOURCE_EXHAUSTED', 429],
  too_many_secrets: ['RESOURCE_EXHAUSTED', 429],
  too_many_rehearsals: ['RESOURCE_EXHAUSTED', 429],
  headers_too_large: ['RESOURCE_EXHAUSTED', 431],
  cancelled: ['CANCELLED', 499],
  internal: ['INTERNAL', 500],
  bank_unavailable: ['UNAVAILABLE', 503],
  unavailable: ['UNAVAILABLE', 503],
} as const satisfies Record<string, readonly [string, number]>

export type Reason = keyof typeof REASONS

/** The path of a reason in the catalogue of errors, relative to the address of the HTTP server. */
export function docUrl(reason: Reason): string {
  return `/docs/errors#${reason}`
}

/** One invalid field. `field` is its path in the JSON form of the request. */
export interface FieldFault {
  readonly field: string
  readonly message: string
}

interface FaultOptions {
  readonly fields?: readonly FieldFault[]
  readonly retryAfterSeconds?: number
  /** Machine-readable details; they become metadata of `google.rpc.ErrorInfo`. */
  readonly facts?: Readonly<Record<string, string>>
  /** The cause for the log; the caller never gets it. */
  readonly cause?: unknown
  /** Fields of the log line; the caller never gets them. */
  readonly logged?: Readonly<Record<string, string>>
}

/** The error type of the service: a stable reason and a text for the caller, and a cause for the log. */
export class Fault extends Error {
  override readonly name = 'Fault'
  readonly reason: Reason
  readonly fields: readonly FieldFault[]
  readonly retryAfterSeconds: number | undefined
  readonly facts: Readonly<Record<string, string>>
  readonly logged: Readonly<Record<string, string>>

  /** @param text is shown to the caller, so it must not reveal anything private */
  constructor(reason: Reason, text: string, options: FaultOptions = {}) {
    super(text, { cause: options.cause })
    this.reason = reason
    this.fields = options.fields ?? []
    this.retryAfterSeconds = options.retryAfterSeconds
    this.facts = options.facts ?? {}
    this.logged = options.logged ?? {}
  }
}

/** The fault of a request with invalid fields, which lists all of them. */
export function invalidFields(fields: readonly FieldFault[]): Fault {
  const names = [...new Set(fields.map((fault) => fault.field))].join(', ')
  return new Fault('validation_failed', `Invalid request: ${names}`, { fields })
}

/** Asserts an invariant; a failure is a bug in Inflow. */
export function assert(condition: unknown, what: string): asserts condition {
  if (!condition) throw new Error(`assertion failed: ${what}`)
}
