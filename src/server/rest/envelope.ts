import { docUrl, type Fault, REASONS } from '../../core/errors.ts'

/** Returns the status, headers and error envelope of a fault. */
export interface ErrorResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

export function toErrorResponse(fault: Fault, requestId: string): ErrorResponse {
  const status = REASONS[fault.reason][1]
  const headers = errorHeaders(fault)
  const body = JSON.stringify({
    status: false,
    message: fault.message,
    code: fault.reason,
    errors: fault.fields.length > 0 ? fault.fields : undefined,
    doc_url: docUrl(fault.reason),
    request_id: requestId,
  })
  return { status, headers, body }
}

/** The headers that HTTP asks for with a status. */
export function errorHeaders({ reason, retryAfterSeconds }: Fault): Record<string, string> {
  const status = REASONS[reason][1]
  const headers: Record<string, string> = {}
  if (status === 401) headers['www-authenticate'] = 'Bearer'
  if (status === 405) headers['allow'] = 'POST'
  if (retryAfterSeconds !== undefined) headers['retry-after'] = `${retryAfterSeconds}`
  return headers
}
