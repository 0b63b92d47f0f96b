import type { DescService } from '@bufbuild/protobuf'
import { type Client, createClient } from '@connectrpc/connect'
import { createConnectTransport } from '@connectrpc/connect-node'
import pino from 'pino'
import { afterAll, beforeAll } from 'vitest'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { ENTITIES } from '../../src/app/entities.ts'
import { type Service, startService } from '../../src/app/start-service.ts'
import type { Connectors } from '../../src/banks/connectors.ts'
import { readConfig } from '../../src/config/config.ts'
import { systemClock } from '../../src/core/clock.ts'
import { type Database, openDatabase } from '../../src/postgres/orm.ts'
import { ADMIN_TOKEN, bearer } from './admin-token.ts'
import { createTestDatabase, useDatabase } from './database.ts'
import { grpcClient } from './grpc-client.ts'
import { MASTER_KEY } from './master-key.ts'

export { ADMIN_TOKEN, bearer, MASTER_KEY }

/** A real service with its own database and ports. */
export interface TestService {
  readonly url: string
  readonly httpUrl: string
  readonly grpcUrl: string
  readonly database: Database
  /** A client of the gRPC server with the admin token, or another credential. */
  client<S extends DescService>(service: S, token?: string): Client<S>
  /** A client of the HTTP server over the Connect protocol. */
  connectClient<S extends DescService>(service: S, token?: string): Client<S>
  /** Posts to `/v2/thirdparty/<path>`. */
  post(path: string, key: string | undefined, body: unknown): Promise<RestAnswer>
  /** A new business with a key. */
  business(name?: string): Promise<{ id: string; key: string }>
  readonly service: Service
}

export interface RestAnswer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  // biome-ignore lint/suspicious/noExplicitAny: tests read responses of many shapes
  readonly body: any
}

/**
 * Starts a service before the tests of a file and stops it after them.
 *
 * @param connectors the connectors to the banks that are live in the environment
 * @param db the database, which is open when the service starts
 * @param log the destination of the log
 */
export function useService(
  environment: NodeJS.ProcessEnv = {},
  connectors?: () => Connectors,
  db: OpenDatabase = useDatabase(),
  log = pino({ level: 'silent' }),
): TestService {
  let service: Service
  beforeAll(async () => {
    service = await start(db.database, environment, connectors?.(), log)
  })
  afterAll(async () => {
    await service?.close()
  })
  return describeService(db, () => service)
}

/** The service that the files of this worker share, and its database. */
let shared: Promise<{ readonly db: OpenDatabase; readonly service: Service }> | undefined

/**
 * Like `useService`, but with one service in default settings for all files of a worker process that call this, which
 * saves a second of CPU time per file. It is for tests that use only their own businesses: not for tests of metrics, the epoch
 * or all rows of a table. Session ids must differ between files. The service ends with the process.
 */
export function useSharedService(): TestService {
  let current: Awaited<NonNullable<typeof shared>>
  beforeAll(async () => {
    shared ??= startShared()
    current = await shared
  })
  const db: OpenDatabase = {
    get url() {
      return current.db.url
    },
    get database() {
      return current.db.database
    },
  }
  return describeService(db, () => current.service)
}

async function startShared() {
  const { url } = await createTestDatabase()
  const database = await openDatabase(url, ENTITIES, { connectionsMax: 16 })
  return { db: { url, database }, service: await start(database) }
}

type OpenDatabase = Pick<ReturnType<typeof useDatabase>, 'url' | 'database'>

function start(
  database: Database,
  environment: NodeJS.ProcessEnv = {},
  connectors?: Connectors,
  log = pino({ level: 'silent' }),
): Promise<Service> {
  return startService({
    config: readConfig({ HTTP_PORT: '0', GRPC_PORT: '0', ...environment }, connectors),
    database,
    masterKey: MASTER_KEY,
    adminToken: ADMIN_TOKEN,
    clock: systemClock,
    log,
    localWebhooks: true,
  })
}

/** @param current returns the service, which runs when any method is called */
function describeService(db: OpenDatabase, current: () => Service): TestService {
  const httpUrl = () => `http://127.0.0.1:${current().httpPort}`
  const grpcUrl = () => `http://127.0.0.1:${current().grpcPort}`
  const test: TestService = {
    get url() {
      return db.url
    },
    get database() {
      return db.database
    },
    get service() {
      return current()
    },
    get httpUrl() {
      return httpUrl()
    },
    get grpcUrl() {
      return grpcUrl()
    },
    client: (desc, token) => grpcClient(desc, grpcUrl(), token),
    connectClient: (desc, token = ADMIN_TOKEN) =>
      createClient(
        desc,
        createConnectTransport({
          baseUrl: httpUrl(),
          httpVersion: '1.1',
          interceptors: [bearer(token)],
        }),
      ),
    post: (path, key, body) => postRest(httpUrl(), key, path, body),
    async business(name = 'Acme') {
      const { business, secretKey } = await test.client(BusinessService).createBusiness({ name })
      return { id: business!.id, key: secretKey }
    },
  }
  return test
}

/** Issues a token. @param businessIds empty: of all businesses */
export async function issueToken(
  service: Pick<TestService, 'client'>,
  scopes: readonly string[],
  businessIds: readonly string[] = [],
  name = 'a token',
): Promise<{ id: string; secret: string }> {
  const wanted = { name, scopes: [...scopes], businessIds: [...businessIds] }
  const { token, secret } = await service.client(AdminService).issueToken(wanted)
  return { id: token!.id, secret }
}

/** Posts to `/v2/thirdparty/<path>`. */
export async function postRest(
  httpUrl: string,
  key: string | undefined,
  path: string,
  body: unknown,
): Promise<RestAnswer> {
  const response = await fetch(`${httpUrl}/v2/thirdparty/${path}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(key !== undefined && { authorization: `Bearer ${key}` }),
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
  const text = await response.text()
  return {
    status: response.status,
    headers: response.headers,
    text,
    body: text === '' ? undefined : JSON.parse(text),
  }
}
