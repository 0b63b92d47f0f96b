import { fromBinary, type Message, toBinary } from '@bufbuild/protobuf'
import { Server, ServerCredentials, type sendUnaryData } from '@grpc/grpc-js'
import {
  GetTransactionRequestSchema,
  GetTransactionResponseSchema,
  TransactionService,
} from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { childProcessMain } from '../child-process-main.ts'

/** A grpc-js server whose GetTransaction returns a constant. */
export interface GrpcServerOptions {
  /** The response, as bytes. */
  readonly response: Uint8Array
}

/** The port it listens at. */
export interface GrpcServerReady {
  readonly port: number
}

childProcessMain<GrpcServerOptions, GrpcServerReady, never, never>(async (options) => {
  const server = new Server({ 'grpc.enable_channelz': 0 })
  const response = fromBinary(GetTransactionResponseSchema, options.response)
  server.addService(
    {
      GetTransaction: {
        path: `/${TransactionService.typeName}/GetTransaction`,
        requestStream: false,
        responseStream: false,
        requestSerialize: (request: Message) =>
          Buffer.from(toBinary(GetTransactionRequestSchema, request as never)),
        requestDeserialize: (bytes: Buffer) => fromBinary(GetTransactionRequestSchema, bytes),
        responseSerialize: (message: Message) =>
          Buffer.from(toBinary(GetTransactionResponseSchema, message as never)),
        responseDeserialize: (bytes: Buffer) => fromBinary(GetTransactionResponseSchema, bytes),
      },
    },
    {
      GetTransaction: (_call: unknown, callback: sendUnaryData<Message>) =>
        callback(null, response),
    },
  )
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) => {
      if (error) reject(error)
      else resolve(bound)
    })
  })
  return { ready: { port } }
})
