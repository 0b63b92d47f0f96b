import { fromBinary } from '@bufbuild/protobuf'
import { anyUnpack } from '@bufbuild/protobuf/wkt'
import { type ServiceError, status } from '@grpc/grpc-js'
import { type ErrorInfo, ErrorInfoSchema } from '../../gen/google/rpc/error_details_pb.ts'
import { StatusSchema } from '../../gen/google/rpc/status_pb.ts'

/** The connection failed, or the service is temporarily unavailable. A retry may succeed. */
export class Interruption extends Error {
  override readonly name = 'Interruption'
  /** The stable reason that the service sent; empty if the connection failed. */
  readonly reason: string

  constructor(message: string, reason = '', cause?: unknown) {
    super(message, { cause })
    this.reason = reason
  }
}

/** The service refused the subscription. A retry would not succeed. */
export class SubscriptionRefused extends Error {
  override readonly name = 'SubscriptionRefused'
  /** A gRPC code. */
  readonly code: status
  /** The stable reason: unauthorized, stale_cursor, expired_cursor, …; empty if none was sent. */
  readonly reason: string
  /** The cursor from which it is safe to resume, for stale_cursor and expired_cursor. */
  readonly cursor: string | undefined

  constructor(cause: ServiceError) {
    super(textOf(cause), { cause })
    const info = errorInfo(cause)
    this.code = cause.code
    this.reason = info?.reason ?? ''
    this.cursor = info?.metadata['cursor']
  }
}

const TRANSIENT: readonly status[] = [
  status.UNAVAILABLE,
  status.CANCELLED,
  status.DEADLINE_EXCEEDED,
  status.INTERNAL,
  status.UNKNOWN,
  status.ABORTED,
  status.RESOURCE_EXHAUSTED,
]

/**
 * Returns the reason that an attempt ended, if a retry may succeed.
 *
 * @throws SubscriptionRefused if a retry would not succeed; the error itself if it is not of gRPC
 */
export function toInterruption(error: unknown): Interruption {
  if (error instanceof Interruption) return error
  if (!isServiceError(error)) throw error
  if (!TRANSIENT.includes(error.code)) throw new SubscriptionRefused(error)
  return new Interruption(textOf(error), errorInfo(error)?.reason, error)
}

function isServiceError(error: unknown): error is ServiceError {
  return error instanceof Error && 'code' in error && 'metadata' in error
}

/** Extracts the cause from the long text that grpc-js reports for a failed connection. */
function textOf({ details, message }: ServiceError): string {
  const cause = /Last error: (?:Error: )?(.*?)(?: \(\d{4}-[^)]*Z\))?\. Resolution note/.exec(
    details,
  )
  return cause?.[1] || details || message
}

function errorInfo(error: ServiceError): ErrorInfo | undefined {
  const [bytes] = error.metadata.get('grpc-status-details-bin')
  if (!Buffer.isBuffer(bytes)) return undefined
  try {
    for (const detail of fromBinary(StatusSchema, bytes).details) {
      const info = anyUnpack(detail, ErrorInfoSchema)
      if (info) return info
    }
  } catch {
    // Details that do not parse are ignored: the code and the text are enough.
  }
  return undefined
}
