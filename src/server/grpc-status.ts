import { create, toBinary } from '@bufbuild/protobuf'
import { BinaryWriter, WireType } from '@bufbuild/protobuf/wire'
import { AnySchema, anyPack } from '@bufbuild/protobuf/wkt'
import { Code, type ConnectError } from '@connectrpc/connect'
import { encodeHeaders } from './http2/hpack-encoder.ts'
import { toConnectError, toFault } from './status.ts'

/** The header that names a call in our log; every answer has it. */
export const REQUEST_ID = 'x-request-id'

export type HeaderPair = readonly [name: string, value: string]

/** How a call ends. The codes of Connect and gRPC are the same numbers; 0 is OK. */
export interface GrpcStatus {
  readonly code: Code | 0
  readonly text: string
  readonly metadata?: readonly HeaderPair[]
}

/** What every answer begins with. */
export const RESPONSE: readonly HeaderPair[] = [
  [':status', '200'],
  ['content-type', 'application/grpc+proto'],
]

/** The trailers of a call that went well. */
export const OK_TRAILERS = encodeHeaders([['grpc-status', '0']])

/** Whatever a call failed with, as a status with `google.rpc` details. */
export function toGrpcStatus(error: unknown, requestId: string): GrpcStatus {
  const failure = toConnectError(toFault(error), requestId)
  // A half of a surrogate pair has no percent-encoding.
  const text = failure.rawMessage.toWellFormed()
  const details = encodeStatus(failure, text).toString('base64').replaceAll('=', '')
  const metadata: HeaderPair[] = [
    [REQUEST_ID, requestId],
    ['grpc-status-details-bin', details],
  ]
  return { code: failure.code, text, metadata }
}

/** A status as headers: the trailers, or what follows `RESPONSE` where there are no others. */
export function statusHeaders({ code, text, metadata = [] }: GrpcStatus): HeaderPair[] {
  const status: HeaderPair[] = [['grpc-status', `${code}`]]
  if (text !== '') status.push(['grpc-message', encodeURI(text.toWellFormed())])
  return [...status, ...metadata]
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

/** The faults of a call that are gRPC's own, and known before anybody looks at who calls. */
export const RPC_STATUS = {
  unknownMethod: (path: string): GrpcStatus => ({
    code: Code.Unimplemented,
    text: `The server does not implement the method ${path.slice(0, 200)}`,
  }),
  badTimeout: (timeout: string): GrpcStatus => ({
    code: Code.Internal,
    text: `Invalid grpc-timeout value "${timeout}"`,
  }),
  messages: (text: string): GrpcStatus => ({ code: Code.Unimplemented, text }),
  unknownEncoding: (encoding: string): GrpcStatus => ({
    code: Code.Unimplemented,
    text: `Received message compressed with unsupported encoding "${encoding}"`,
    metadata: [['grpc-accept-encoding', 'identity,deflate,gzip']],
  }),
  tooLarge: (bytes: string, most: number): GrpcStatus => ({
    code: Code.ResourceExhausted,
    text: `Received message larger than max (${bytes} vs. ${most})`,
  }),
  deadline: { code: Code.DeadlineExceeded, text: 'Deadline exceeded' } as GrpcStatus,
} as const
