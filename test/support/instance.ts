import type { AddressInfo } from 'node:net'
import { createServer, connect as dial, type Socket } from 'node:net'
import type { DescService } from '@bufbuild/protobuf'
import { type Client, createClient } from '@connectrpc/connect'
import { createGrpcTransport } from '@connectrpc/connect-node'
import pino, { type Logger } from 'pino'
import type { Registry } from 'prom-client'
import { ENTITIES } from '../../src/app/entities.ts'
import { startService } from '../../src/app/start-service.ts'
import { type Config, readConfig } from '../../src/config/config.ts'
import { type Clock, systemClock } from '../../src/core/clock.ts'
import { openDatabase } from '../../src/postgres/orm.ts'
import { openTls } from '../../src/server/tls.ts'
import { ADMIN_TOKEN, bearer, MASTER_KEY } from './service.ts'

/** An instance of the service with its own connections. */
export interface Instance {
  readonly httpUrl: string
  readonly grpcUrl: string
  /** A client of the gRPC server with the admin token. */
  client<S extends DescService>(service: S): Client<S>
  /** Of OPS_PORT, if it is set. */
  readonly opsUrl: string
  /** Its metrics as they are now: /metrics renders them at most once a second. */
  readonly metrics: Registry
  reloadTls(): void
  /** Reports that it is about to stop, and goes on serving. */
  announceStop(): void
  close(): Promise<void>
}

/** @param databaseUrl a migrated database; instances may share it */
export async function startInstance(
  databaseUrl: string,
  overrides: Partial<Config> = {},
  log: Logger = pino({ level: 'silent' }),
  clock: Clock = systemClock,
  clockEveryMs?: number,
): Promise<Instance> {
  const database = await openDatabase(databaseUrl, ENTITIES)
  const tls = overrides.tls && openTls(overrides.tls, log)
  const service = await startService({
    config: { ...readConfig({ HTTP_PORT: '0', GRPC_PORT: '0' }), ...overrides },
    database,
    masterKey: MASTER_KEY,
    adminToken: ADMIN_TOKEN,
    clock,
    ...(clockEveryMs !== undefined && { clockEveryMs }),
    log,
    localWebhooks: true,
    tls,
  })
  const scheme = overrides.tls ? 'https' : 'http'
  const grpcUrl = `${scheme}://127.0.0.1:${service.grpcPort}`
  const interceptors = [bearer(ADMIN_TOKEN)]
  return {
    httpUrl: `${scheme}://127.0.0.1:${service.httpPort}`,
    grpcUrl,
    opsUrl: `${scheme}://127.0.0.1:${service.opsPort}`,
    client: (desc) => createClient(desc, createGrpcTransport({ baseUrl: grpcUrl, interceptors })),
    metrics: service.metrics,
    reloadTls: () => tls?.reload(),
    announceStop: service.announceStop,
    async close() {
      await service.close()
      await database.close()
    },
  }
}

/** A proxy to a database, or another server, whose connections can be cut and restored. */
export interface Wire {
  /** The server's URL through the proxy. */
  readonly url: string
  /** Drops all connections, and refuses new ones. */
  cut(): Promise<void>
  mend(): Promise<void>
  close(): Promise<void>
}

/** @param first what each connection to the server begins with */
export async function startWire(serverUrl: string, first: readonly Buffer[] = []): Promise<Wire> {
  const target = new URL(serverUrl)
  const sockets = new Set<Socket>()
  const server = createServer((incoming) => {
    const outgoing = dial(Number(target.port), target.hostname).setNoDelay(true)
    for (const part of first) outgoing.write(part)
    for (const [socket, other] of [
      [incoming, outgoing],
      [outgoing, incoming],
    ] as const) {
      sockets.add(socket)
      socket.pipe(other)
      socket.on('error', () => other.destroy())
      socket.on('close', () => {
        sockets.delete(socket)
        other.destroy()
      })
    }
  })
  const listen = (port: number) =>
    new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  await listen(0)
  const { port } = server.address() as AddressInfo
  const url = new URL(serverUrl)
  url.host = `127.0.0.1:${port}`
  const cut = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve())
      for (const socket of sockets) socket.destroy()
    })
  return { url: url.href, cut, mend: () => listen(port), close: cut }
}
