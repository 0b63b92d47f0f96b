import { cp, mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { DescMethodUnary, MessageInitShape, MessageShape } from '@bufbuild/protobuf'
import { Client, credentials, type ServiceError, status } from '@grpc/grpc-js'
import { Agent, request } from 'undici'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { callUnary, metadataOf } from '../protocols/grpc/fixture.ts'
import { type Balancer, startBalancer } from '../support/balancer.ts'
import { createTestDatabase, query } from '../support/database.ts'
import { makeFolder } from '../support/folder.ts'
import { grpcClient, grpcTransport } from '../support/grpc-client.ts'
import { openBusinessOver } from '../support/opened-account.ts'
import { ROOT, startProcess } from '../support/process.ts'
import { ADMIN_TOKEN } from '../support/service.ts'
import { WAIT_LIMIT_MS, waitFor } from '../support/wait-for.ts'
import { follow, idsOf, readyz, startHttpsReceiver, webhookIdsBySession } from './scene.ts'

const NEXT = 'Migration20991231000000_note'

/** An expand migration: versions that know only the first migration go on. */
const LISTED = `  sqlMigration('${NEXT}', INITIAL, ['note.sql']),`
const SQL = "alter table business add column note text default ''"

let folder: string
let nextRoot: string

beforeAll(async () => {
  folder = await makeFolder('upgrade')
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
  const migrations = join(root, 'src/postgres/migrations')
  await writeFile(join(migrations, 'note.sql'), SQL)
  const list = join(migrations, 'migrations.ts')
  const source = await readFile(list, 'utf8')
  const extended = source.replace(/^]$/m, `${LISTED}\n]`)
  expect(extended).not.toBe(source)
  await writeFile(list, extended)
}

/** Of a caller between two calls. */
const PAUSE_MS = 10

/** The load of callers of the service behind a balancer, until it is ended. */
function startLoad(balancer: Balancer, accountNumber: string, secretKey: string) {
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
      await pause(PAUSE_MS)
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
        const text = await body.text()
        // That the database is slow is no fault of the upgrade.
        const isBusy = text.includes('cannot reach its database')
        if (statusCode >= 500 && !isBusy) counts.lookupsFailed += 1
      } catch {
        counts.lookupsFailed += 1
      }
      await pause(PAUSE_MS)
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
async function call<M extends DescMethodUnary>(
  client: Client,
  method: M,
  request: MessageInitShape<M['input']>,
): Promise<MessageShape<M['output']>> {
  const metadata = metadataOf({ authorization: `Bearer ${ADMIN_TOKEN}` })
  const deadline = Date.now() + 30_000
  const { message, error } = await callUnary(client, method, request, metadata, { deadline })
  if (error) throw error
  return message!
}

/** Starts an instance and waits until the balancer uses it. */
async function addInstance(balancer: Balancer, env: NodeJS.ProcessEnv, root?: string) {
  const instance = await startProcess(env, true, root)
  onTestFinished(() => instance.kill())
  await balancer.add(instance)
  return instance
}

test('an upgrade with an expand migration loses and repeats nothing; with SHUTDOWN_DELAY_SECONDS, no HTTP request fails', async () => {
  const made = await createTestDatabase()
  onTestFinished(made.drop)
  const { receiver, environment } = await startHttpsReceiver()
  const env = {
    DATABASE_URL: made.url,
    LOG_LEVEL: 'info',
    ...environment,
    SHUTDOWN_DELAY_SECONDS: '10',
  }
  const balancer = await startBalancer()
  onTestFinished(() => balancer.close())
  const old = [await addInstance(balancer, env), await addInstance(balancer, env)]
  const { grpcUrl } = balancer
  const { businessId, secretKey, accountNumber } = await openBusinessOver(grpcTransport(grpcUrl))
  await grpcClient(WebhookService, grpcUrl).createEndpoint({ businessId, url: receiver.url })
  const load = startLoad(balancer, accountNumber, secretKey)
  const follower = follow({ grpcAddress: new URL(grpcUrl).host })

  await addInstance(balancer, env, nextRoot)
  await waitFor(async () =>
    expect(await readyz(old[0]!)).toEqual({
      code: 200,
      body: { status: 'ready', notes: ['the schema is of a newer version: finish the upgrade'] },
    }),
  )
  expect(await old[0]!.stop()).toBe(0)
  await addInstance(balancer, env, nextRoot)
  expect(await old[1]!.stop()).toBe(0)

  const before = load.recorded.size
  await waitFor(() => expect(load.recorded.size).toBeGreaterThan(before + 20))
  await load.end()
  const { recorded, counts, failures } = load
  console.log(`upgrade: ${recorded.size} payments`, counts)
  expect(failures).toEqual([])
  expect(counts.lookupsFailed).toBe(0)

  const stored = await query<{ session_id: string }>(made.url, 'select session_id from transaction')
  expect(stored.map((row) => row.session_id).sort()).toEqual([...recorded].sort())
  await waitFor(async () => {
    const log = 'select event_id from event_log order by position'
    const rows = await query<{ event_id: string }>(made.url, log)
    expect(idsOf(follower.events)).toEqual(rows.map((row) => row.event_id))
    expect(rows.length).toBeGreaterThan(recorded.size)
  })
  await waitFor(() => {
    const ids = webhookIdsBySession(receiver)
    for (const session of recorded) expect(ids.get(session)?.size).toBe(1)
  })
})
