import { fromBinary } from '@bufbuild/protobuf'
import { anyUnpack } from '@bufbuild/protobuf/wkt'
import { type ServiceError, status } from '@grpc/grpc-js'
import { type ErrorInfo, ErrorInfoSchema } from '../../gen/google/rpc/error_details_pb.ts'
import { StatusSchema } from '../../gen/google/rpc/status_pb.ts'

/** The way failed, or the service is away for now: another attempt may go well. */
export class Interruption extends Error {
  override readonly name = 'Interruption'
  /** The stable reason; empty when it was not the service that spoke, but the way that failed. */
  readonly reason: string

  constructor(message: string, reason = '', cause?: unknown) {
    super(message, { cause })
    this.reason = reason
  }
}

/** The service refused to go on, and asking again would not help. */
export class SubscriptionRefused extends Error {
  override readonly name = 'SubscriptionRefused'
  /** A gRPC code. */
  readonly code: status
  /** The stable reason: unauthorized, stale_cursor, expired_cursor, …; empty when none was given. */
  readonly reason: string
  /** Where it is safe to go on, after stale_cursor and expired_cursor. */
  readonly cursor: string | undefined

  constructor(cause: ServiceError) {
    super(textOf(cause), { cause })
    const info = errorInfo(cause)
    this.code = cause.code
    this.reason = info?.reason ?? ''
    this.cursor = info?.metadata['cursor']
  }
}

const PASSING: readonly status[] = [
  status.UNAVAILABLE,
  status.CANCELLED,
  status.DEADLINE_EXCEEDED,
  status.INTERNAL,
  status.UNKNOWN,
  status.ABORTED,
  status.RESOURCE_EXHAUSTED,
]

/**
 * What ended an attempt, when another one may go well.
 *
 * @throws SubscriptionRefused when not, and whatever did not end an attempt
 */
export function toInterruption(error: unknown): Interruption {
  if (error instanceof Interruption) return error
  if (!isServiceError(error)) throw error
  if (!PASSING.includes(error.code)) throw new SubscriptionRefused(error)
  return new Interruption(textOf(error), errorInfo(error)?.reason, error)
}

function isServiceError(error: unknown): error is ServiceError {
  return error instanceof Error && 'code' in error && 'metadata' in error
}

/** What grpc-js says of a connection that failed holds the cause in the midst of other words. */
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
    // Details that do not parse say nothing; the code and the text stand without them.
  }
  return undefined
}
