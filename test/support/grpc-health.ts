import { Client, credentials } from '@grpc/grpc-js'

const SERVING = 1

/** Asks the standard health service. @returns whether the server serves; false as well without a response */
export function servesGrpc(grpcUrl: string): Promise<boolean> {
  const client = new Client(new URL(grpcUrl).host, credentials.createInsecure())
  const same = (bytes: Buffer) => bytes
  return new Promise((resolve) => {
    client.makeUnaryRequest(
      '/grpc.health.v1.Health/Check',
      same,
      same,
      Buffer.alloc(0),
      { deadline: Date.now() + 2_000 },
      (_error, response) => {
        client.close()
        // Field 1 of HealthCheckResponse.
        resolve(response?.[0] === 0x08 && response[1] === SERVING)
      },
    )
  })
}
