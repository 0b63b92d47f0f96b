import type { DescService } from '@bufbuild/protobuf'
import { type Client, createClient, type Transport } from '@connectrpc/connect'
import { createGrpcTransport } from '@connectrpc/connect-node'
import { ADMIN_TOKEN, bearer } from './admin-token.ts'

/** A gRPC connection whose calls carry a token. */
export function grpcTransport(grpcUrl: string, token = ADMIN_TOKEN): Transport {
  return createGrpcTransport({ baseUrl: grpcUrl, interceptors: [bearer(token)] })
}

/** A gRPC client with a connection of its own. */
export function grpcClient<S extends DescService>(
  service: S,
  grpcUrl: string,
  token = ADMIN_TOKEN,
): Client<S> {
  return createClient(service, grpcTransport(grpcUrl, token))
}
