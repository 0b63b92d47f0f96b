import { Client, credentials } from '@grpc/grpc-js'

const SERVING = 1

/** Calls the standard health service. @returns the bytes of its response */
export function checkHealth(client: Client, timeoutMs: number): Promise<Buffer> {
  const same = (bytes: Buffer) => bytes
  const path = '/grpc.health.v1.Health/Check'
  const deadline = Date.now() + timeoutMs
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(path, same, same, Buffer.alloc(0), { deadline }, (error, response) =>
      error ? reject(error) : resolve(response!),
    )
  })
}

/** Whether a server is SERVING; false without a response. */
export async function servesGrpc(grpcUrl: string): Promise<boolean> {
  const client = new Client(new URL(grpcUrl).host, credentials.createInsecure())
  try {
    const response = await checkHealth(client, 60_000)
    // Field 1 of HealthCheckResponse.
    return response[0] === 0x08 && response[1] === SERVING
  } catch {
    return false
  } finally {
    client.close()
  }
}
