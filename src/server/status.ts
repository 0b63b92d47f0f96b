import { create } from '@bufbuild/protobuf'
import { DurationSchema } from '@bufbuild/protobuf/wkt'
import { ConnectError } from '@connectrpc/connect'
import { status } from '@grpc/grpc-js'
import {
  BadRequestSchema,
  ErrorInfoSchema,
  RetryInfoSchema,
} from '../../gen/google/rpc/error_details_pb.ts'
import { docUrl, Fault, REASONS } from '../core/errors.ts'
import { isRetryable } from '../postgres/is-retryable.ts'

/** Returns the gRPC code of a fault, with `google.rpc` details. */
export function toConnectError(fault: Fault, requestId: string): ConnectError {
  const details: NonNullable<ConstructorParameters<typeof ConnectError>[3]> = [
    {
      desc: ErrorInfoSchema,
      value: {
        reason: fault.reason,
        domain: 'inflow',
        metadata: { ...fault.facts, doc_url: docUrl(fault.reason), request_id: requestId },
      },
    },
  ]
  if (fault.fields.length > 0) {
    const fieldViolations = fault.fields.map(({ field, message }) => ({
      field,
      description: message,
    }))
    details.push({ desc: BadRequestSchema, value: { fieldViolations } })
  }
  if (fault.retryAfterSeconds !== undefined) {
    const retryDelay = create(DurationSchema, { seconds: BigInt(fault.retryAfterSeconds) })
    details.push({ desc: RetryInfoSchema, value: { retryDelay } })
  }
  // The text may quote half of a surrogate pair from a JSON request, which the trailers of gRPC-Web cannot encode.
  const message = fault.message.toWellFormed()
  // Connect uses the same numbers.
  const code: number = status[REASONS[fault.reason][0]]
  return new ConnectError(message, code, undefined, details)
}

/** Returns an error as a fault. An unexpected error becomes `internal`; its text stays in the log. */
export function toFault(error: unknown): Fault {
  if (error instanceof Fault) return error
  if (isRetryable(error)) {
    return new Fault('unavailable', 'The service cannot reach its database; try again shortly', {
      retryAfterSeconds: 1,
      cause: error,
    })
  }
  if (error instanceof Error && error.name === 'AbortError') {
    return new Fault('cancelled', 'The call was cancelled', { cause: error })
  }
  return new Fault('internal', 'An internal error occurred', { cause: error })
}
