import { create, toBinary } from '@bufbuild/protobuf'
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import { AnySchema, anyPack } from '@bufbuild/protobuf/wkt'
import type { ConnectError } from '@connectrpc/connect'
import { Metadata, type status } from '@grpc/grpc-js'
import { toConnectError, toFault } from '../rpc/status.ts'

/** The header with the request id, which every response has. */
export const REQUEST_ID = 'x-request-id'

/** The status of a failed call, as grpc-js expects it; grpc-js percent-encodes the text. */
export interface GrpcStatus {
  readonly code: status
  readonly details: string
  readonly metadata: Metadata
}

/** Returns the error of a call as a status with `google.rpc` details. */
export function toGrpcStatus(error: unknown, requestId: string): GrpcStatus {
  const failure = toConnectError(toFault(error), requestId)
  const metadata = new Metadata()
  metadata.set(REQUEST_ID, requestId)
  // A lone surrogate has no percent-encoding, and would make grpc-js throw.
  const text = failure.rawMessage.toWellFormed()
  metadata.set('grpc-status-details-bin', encodeStatus(failure, text))
  // Connect and gRPC use the same numbers for codes.
  return { code: failure.code as number, details: text, metadata }
}

/** `google.rpc.Status`: code = 1, message = 2, details = 3. Three fields need no generated code. */
function encodeStatus(failure: ConnectError, text: string): Buffer {
  const writer = new BinaryWriter().tag(1, WireType.Varint).int32(failure.code)
  writer.tag(2, WireType.LengthDelimited).string(text)
  for (const detail of failure.details) {
    if (!('desc' in detail)) continue
    const packed = anyPack(detail.desc, create(detail.desc, detail.value))
    writer.tag(3, WireType.LengthDelimited).bytes(toBinary(AnySchema, packed))
  }
  return Buffer.from(writer.finish())
}
