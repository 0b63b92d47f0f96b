import { type HeaderField, KIND } from './hpack-fields.ts'

/** The headers of a request, and of them what the door looks at. */
export interface RequestHead {
  readonly method: string
  readonly path: string
  readonly contentType: string | undefined
  /** -1: not given. */
  readonly contentLength: number
  readonly grpcTimeout: string | undefined
  readonly grpcEncoding: string | undefined
  readonly authorization: string | undefined
  readonly fields: readonly HeaderField[]
}

/** Each field that is looked at, in the order of their kinds. */
type Seen = (string | undefined)[]

/** @returns undefined when the request is malformed (RFC 9113, sections 8.1.1, 8.2 and 8.3) */
export function readRequestHead(fields: readonly HeaderField[]): RequestHead | undefined {
  const seen: Seen = [
    ...[undefined, undefined, undefined, undefined, undefined, undefined],
    ...[undefined, undefined, undefined, undefined, undefined],
  ]
  let pseudo = true
  for (const field of fields) {
    const { kind } = field
    if (kind === KIND.forbidden) return undefined
    if (kind >= KIND.method && kind <= KIND.authority) {
      if (!pseudo || seen[kind] !== undefined) return undefined
    } else pseudo = false
    // Of a field that comes again, the first counts, as everywhere here.
    if (kind !== KIND.other) seen[kind] ??= field.value
    if (kind === KIND.te && field.value !== 'trailers') return undefined
    if (kind === KIND.contentLength && field.value !== seen[kind]) return undefined
  }
  const method = seen[KIND.method]
  const path = seen[KIND.path]
  const length = seen[KIND.contentLength]
  if (!method || !path || !seen[KIND.scheme]) return undefined
  if (length !== undefined && !/^\d{1,15}$/.test(length)) return undefined
  return {
    method,
    path,
    contentType: seen[KIND.contentType],
    contentLength: length === undefined ? -1 : Number(length),
    grpcTimeout: seen[KIND.grpcTimeout],
    grpcEncoding: seen[KIND.grpcEncoding],
    authorization: seen[KIND.authorization],
    fields,
  }
}

/** Whether the headers at the end of a request are as they may be (section 8.1). */
export function areTrailers(fields: readonly HeaderField[]): boolean {
  return fields.every(
    ({ kind }) => kind !== KIND.forbidden && !(kind >= KIND.method && kind <= KIND.authority),
  )
}
