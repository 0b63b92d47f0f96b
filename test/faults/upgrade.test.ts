import { cp, mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import {
  create,
  type DescMethodUnary,
  fromBinary,
  type MessageInitShape,
  type MessageShape,
  toBinary,
} from '@bufbuild/protobuf'
import { Client, credentials, Metadata, type ServiceError, status } from '@grpc/grpc-js'
import pg from 'pg'
import { Agent, request } from 'undici'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import type { Event } from '../../gen/inflow/event/v1/event_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { subscribe } from '../../src/client/subscribe.ts'
import { type Balancer, startBalancer } from '../support/balancer.ts'
import { createTestDatabase } from '../support/database.ts'
import { makeFolder } from '../support/folder.ts'
import { grpcClient, grpcTransport } from '../support/grpc-client.ts'
import { openBusinessOver } from '../support/opened-account.ts'
import { ROOT, type ServiceProcess, startProcess } from '../support/process.ts'
import { ADMIN_TOKEN } from '../support/service.ts'
import { WAIT_LIMIT_MS, waitFor } from '../support/wait-for.ts'
import { makeCertificate } from '../webhooks/sender/certificate.ts'

const NEXT = 'Migration20991231000000_note'

/** An expand migration: versions that know only the first migration go on. */
const SOURCE = `
import { Migration } from '@mikro-orm/migrations'
export class ${NEXT} extends Migration {
  static readonly worksSince = 'Migration20261122000000_initial'
  override up(): void {
    this.addSql("alter table business add column note text default ''")
  }
}
`

const certificate = makeCertificate()
let folder: string
let nextRoot: string

beforeAll(async () => {
  folder = await makeFolder('upgrade')
  await writeFile(join(folder, 'authority.pem'), certificate.cert)
  nextRoot = join(folder, 'next')
  await makeNextVersion(nextRoot)
})
afterAll(() => rm(folder, { recursive: true, force: true }))

/** A copy of this version with one more migration. */
async function makeNextVersion(root: string): Promise<void> {
  await mkdir(root)
  for (const name of ['src', 'gen', 'proto']) {
    await cp(join(ROOT, name), join(root, name), { recursive: true, verbatimSymlinks: true })
  }
  const about = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8'))
  await writeFile(join(root, 'package.json'), JSON.stringify({ ...about, version: '99.0.0' }))
  await symlink(join(ROOT, 'node_modules'), join(root, 'node_modules'))
  await writeFile(join(root, 'src/postgres/migrations', `${NEXT}.ts`), SOURCE)
}

/** A receiver that counts the webhook ids of each session. */
async function startReceiver() {
  const idsOf = new Map<string, Set<string>>()
  const server = createServer(certificate, (incoming, response) => {
    let body = ''
    incoming.on('data', (chunk) => {
      body += chunk
    })
    incoming.on('end', () => {
      const session = String(JSON.parse(body).data.transaction_ref ?? '')
      const ids = idsOf.get(session) ?? new Set()
      idsOf.set(session, ids.add(String(incoming.headers['webhook-id'])))
      response.end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `https://127.0.0.1:${(server.address() as AddressInfo).port}/`, idsOf }
}

interface Scene {
  readonly databaseUrl: string
  readonly balancer: Balancer
  readonly accountNumber: string
  readonly secretKey: string
  /** The webhook ids of each session that arrived. */
  readonly idsOf: ReadonlyMap<string, ReadonlySet<string>>
}

/** A business with an account and an endpoint, at the service behind the balancer. */
async function setUp(balancer: Balancer, databaseUrl: string): Promise<Scene> {
  const at = balancer.grpcUrl
  const { businessId, secretKey, accountNumber } = await openBusinessOver(grpcTransport(at))
  const receiver = await startReceiver()
  await grpcClient(WebhookService, at).createEndpoint({ businessId, url: receiver.url })
  const { idsOf } = receiver
  return { databaseUrl, balancer, accountNumber, secretKey, idsOf }
}

/** The load of callers, until it is ended. */
function startLoad({ balancer, accountNumber, secretKey }: Scene) {
  const recorded = new Set<string>()
  const counts = { unavailable: 0, lookups: 0, lookupsFailed: 0 }
  const failures: unknown[] = []
  const ended = new AbortController()
  let number = 0
  const writer = async (sender: number) => {
    // Each sender has a connection of its own.
    const client = new Client(new URL(balancer.grpcUrl).host, credentials.createInsecure())
    while (!ended.signal.aborted) {
      number += 1
      const sessionId = `UP-${number}`
      await record(client, sessionId, sender % 2 === 0).catch((error: unknown) => {
        failures.push(error)
      })
      recorded.add(sessionId)
    }
    client.close()
  }
  /** Repeats what is UNAVAILABLE, as the contract says. */
  const record = async (client: Client, sessionId: string, alone: boolean): Promise<void> => {
    const bank = Bank.BANK_PROVIDUS
    const payment = { bank, accountNumber, sessionId, amountMinor: 100n }
    const { recordPayment, recordPayments } = TransactionService.method
    // A client whose connection was refused waits for a second or two before it tries again.
    for (const untilMs = performance.now() + WAIT_LIMIT_MS; ; await pause(20)) {
      try {
        if (alone) await call(client, recordPayment, payment)
        else {
          const { results } = await call(client, recordPayments, { payments: [payment] })
          expect(results[0]?.error).toBe('')
        }
        return
      } catch (error) {
        const isUnavailable = (error as ServiceError).code === status.UNAVAILABLE
        if (!isUnavailable || performance.now() > untilMs) throw error
        counts.unavailable += 1
      }
    }
  }
  const reader = async () => {
    const dispatcher = new Agent({ connections: 1, pipelining: 1 })
    while (!ended.signal.aborted) {
      counts.lookups += 1
      const session = [...recorded].at(-1) ?? 'none'
      try {
        const { statusCode, body } = await request(
          `${balancer.httpUrl}/v2/thirdparty/getTransaction/`,
          {
            dispatcher,
            method: 'POST',
            headers: { 'content-type': 'application/json', authorization: `Bearer ${secretKey}` },
            body: JSON.stringify({ session_id: session }),
          },
        )
        await body.text()
        if (statusCode >= 500) counts.lookupsFailed += 1
      } catch {
        counts.lookupsFailed += 1
      }
    }
    await dispatcher.destroy()
  }
  const running = Promise.all([...[0, 1, 2, 3].map(writer), reader(), reader(), reader()])
  return {
    recorded,
    counts,
    failures,
    end: () => {
      ended.abort()
      return running
    },
  }
}

/** A unary call with the official client, which also follows GOAWAY. */
function call<M extends DescMethodUnary>(
  client: Client,
  { parent, name, input, output }: M,
  message: MessageInitShape<M['input']>,
): Promise<MessageShape<M['output']>> {
  const metadata = new Metadata()
  metadata.set('authorization', `Bearer ${ADMIN_TOKEN}`)
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(
      `/${parent.typeName}/${name}`,
      (request: MessageShape<M['input']>) => Buffer.from(toBinary(input, request)),
      (bytes) => fromBinary(output, bytes) as MessageShape<M['output']>,
      create(input, message) as MessageShape<M['input']>,
      metadata,
      { deadline: Date.now() + 30_000 },
      (error, response) => (error ? reject(error) : resolve(response!)),
    )
  })
}

/** Follows the log until the signal aborts. */
async function follow(balancer: Balancer, events: Event[], signal: AbortSignal): Promise<void> {
  const addresses = [new URL(balancer.grpcUrl).host]
  const start = { case: 'beginning' as const, value: true }
  for await (const event of subscribe({ addresses, token: ADMIN_TOKEN, start, signal })) {
    events.push(event)
  }
}

/** Starts an instance and waits until the balancer uses it. */
async function addInstance(balancer: Balancer, env: NodeJS.ProcessEnv, root?: string) {
  const instance = await startProcess(env, true, root)
  onTestFinished(() => instance.kill())
  await balancer.add(instance)
  return instance
}

/** What `/readyz` of an instance says. */
async function readiness({ httpUrl }: ServiceProcess) {
  const response = await fetch(`${httpUrl}/readyz`)
  return { code: response.status, body: await response.json() }
}

test('an upgrade with an expand migration loses and repeats nothing; with SHUTDOWN_DELAY_SECONDS, no HTTP request fails', async () => {
  const made = await createTestDatabase()
  onTestFinished(made.drop)
  const env = {
    DATABASE_URL: made.url,
    LOG_LEVEL: 'info',
    NODE_EXTRA_CA_CERTS: join(folder, 'authority.pem'),
    WEBHOOK_ALLOWED_CIDRS: '127.0.0.0/8',
    SHUTDOWN_DELAY_SECONDS: '2',
  }
  const balancer = await startBalancer()
  onTestFinished(() => balancer.close())
  const old = [await addInstance(balancer, env), await addInstance(balancer, env)]
  const scene = await setUp(balancer, made.url)
  const load = startLoad(scene)
  const events: Event[] = []
  const stopFollowing = new AbortController()
  const following = follow(balancer, events, stopFollowing.signal)

  await addInstance(balancer, env, nextRoot)
  expect(await readiness(old[0]!)).toEqual({
    code: 200,
    body: { status: 'ready', notes: ['the schema is of a newer version: finish the upgrade'] },
  })
  expect(await old[0]!.stop()).toBe(0)
  const restarted = await addInstance(balancer, env)
  expect(await restarted.stop()).toBe(0)
  await addInstance(balancer, env, nextRoot)
  expect(await old[1]!.stop()).toBe(0)

  const before = load.recorded.size
  await waitFor(() => expect(load.recorded.size).toBeGreaterThan(before + 20))
  await load.end()
  const { recorded, counts, failures } = load
  console.log(`upgrade: ${recorded.size} payments`, counts)
  expect(failures).toEqual([])
  expect(counts.lookupsFailed).toBe(0)

  const database = new pg.Client({ connectionString: made.url })
  await database.connect()
  onTestFinished(() => database.end())
  const stored = await database.query('select session_id from transaction')
  expect(stored.rows.map((row) => row.session_id).sort()).toEqual([...recorded].sort())
  await waitFor(async () => {
    const { rows } = await database.query('select event_id from event_log order by position')
    expect(events.map(({ id }) => id)).toEqual(rows.map((row) => row.event_id))
    expect(rows.length).toBeGreaterThan(recorded.size)
  })
  stopFollowing.abort()
  await following
  await waitFor(() => {
    for (const session of recorded) expect(scene.idsOf.get(session)?.size).toBe(1)
  })
})
