import { readFile } from 'node:fs/promises'
import { type JetStreamManager, jetstreamManager } from '@nats-io/jetstream'
import { connect, credsAuthenticator, type NatsConnection } from '@nats-io/transport-node'

/** How long a connection, and a request, may take. */
const CONNECT_MS = 5_000
export const REQUEST_MS = 5_000

/** Finds a connection that died without a word. */
const PING_MS = 10_000

/** Where the NATS servers are, and how to sign in. */
export interface NatsSettings {
  /** `host:port` of each. */
  readonly servers: readonly string[]
  readonly tls: boolean
  readonly user: string | undefined
  readonly password: string | undefined
  readonly token: string | undefined
  readonly credentialsFile: string | undefined
  readonly caFile: string | undefined
}

/**
 * Connects to the first server that responds. The connection does not reconnect: its user connects again,
 * and compares the stream first.
 */
export async function connectNats(settings: NatsSettings): Promise<NatsConnection> {
  const { servers, tls, user, password, token, credentialsFile, caFile } = settings
  return connect({
    servers: [...servers],
    name: 'inflow-relay',
    timeout: CONNECT_MS,
    reconnect: false,
    pingInterval: PING_MS,
    // A stack trace for each request costs more than the request.
    noAsyncTraces: true,
    ...(user !== undefined && { user, pass: password ?? '' }),
    ...(token !== undefined && { token }),
    ...(credentialsFile !== undefined && {
      authenticator: credsAuthenticator(await readFile(credentialsFile)),
    }),
    ...((tls || caFile !== undefined) && { tls: caFile === undefined ? {} : { caFile } }),
  })
}

/** The manager of streams. @throws Error if the account has no JetStream */
export function manageStreams(connection: NatsConnection): Promise<JetStreamManager> {
  return jetstreamManager(connection, { timeout: REQUEST_MS })
}
