import type { Message } from '@bufbuild/protobuf'
import type { GrpcCall } from './grpc-call.ts'
import type { Deadlines } from './http2/deadlines.ts'

/** A method that can be called. */
export interface GrpcMethod {
  readonly path: string
  /** Reads what a message is, once the caller is known. @throws Fault */
  decode(bytes: Buffer): Message
  /** Called with a call whose one message has come; it answers, now or later, and never throws. */
  handle(call: GrpcCall): unknown
  /** Where a call has many messages, it is handled from the beginning, and told of each. */
  readonly requestStream?: boolean
}

/** What calls need from the door. */
export interface CallHost {
  readonly requestIds: () => string
  readonly deadlines: Deadlines
}
