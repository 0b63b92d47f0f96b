import { createServer } from 'node:http2'
import type { AddressInfo } from 'node:net'
import { fromBinary } from '@bufbuild/protobuf'
import { connectNodeAdapter } from '@connectrpc/connect-node'
import {
  EventService,
  SubscribeResponseSchema,
} from '../../../gen/inflow/event/v1/event_service_pb.ts'
import { childProcessMain } from '../child-process-main.ts'

/** connect-node's own gRPC server, streaming messages that it has in memory. */
export interface ConnectStreamOptions {
  /** The messages, as bytes. */
  readonly messages: readonly Uint8Array[]
}

/** The port it listens at. */
export interface ConnectStreamReady {
  readonly port: number
}

childProcessMain<ConnectStreamOptions, ConnectStreamReady, never, never>(async (options) => {
  const messages = options.messages.map((bytes) => fromBinary(SubscribeResponseSchema, bytes))
  const server = createServer(
    connectNodeAdapter({
      routes: (router) => {
        router.service(EventService, {
          async *subscribe() {
            yield* messages
          },
        })
      },
    }),
  )
  server.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  return { ready: { port: (server.address() as AddressInfo).port } }
})
