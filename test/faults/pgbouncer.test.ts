import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createClient } from '@connectrpc/connect'
import { Client } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { EventService } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import {
  RecordOutcome,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { subscribe } from '../../src/client/subscribe.ts'
import { useDatabase } from '../support/database.ts'
import { temporaryFolder } from '../support/folder.ts'
import { freePort } from '../support/free-port.ts'
import { grpcTransport } from '../support/grpc-client.ts'
import { openBusinessOver } from '../support/opened-account.ts'
import { startProcess } from '../support/process.ts'
import { startProxy } from '../support/proxy.ts'
import { ADMIN_TOKEN, postRest } from '../support/service.ts'
import { untilServed, waitFor } from '../support/wait-for.ts'

const isInstalled = spawnSync('pgbouncer', ['--version']).status === 0

/** As many as a pooler is for: fewer than the service opens without one. */
const SERVER_CONNECTIONS = 6

const db = useDatabase()

/** Starts PgBouncer with transaction pooling. @returns the URL of the database through it */
async function startPgBouncer(): Promise<string> {
  const folder = temporaryFolder()
  const url = new URL(db.url)
  const port = await freePort()
  const file = join(folder, 'pgbouncer.ini')
  const target = `host=${url.hostname} port=${url.port} user=${url.username} password=${url.password}`
  const lines = [
    '[databases]',
    `* = ${target}`,
    '[pgbouncer]',
    'listen_addr = 127.0.0.1',
    `listen_port = ${port}`,
    'unix_socket_dir =',
    'auth_type = any',
    'pool_mode = transaction',
    `default_pool_size = ${SERVER_CONNECTIONS}`,
    'max_client_conn = 200',
    // As the guide for operators asks: a transaction of a silent instance would keep its locks.
    'idle_transaction_timeout = 60',
  ]
  await writeFile(file, lines.join('\n'))
  await chmod(file, 0o644)
  // It refuses to run as root.
  const user = process.getuid?.() === 0 ? ['-u', 'postgres'] : []
  const child = spawn('pgbouncer', ['-q', ...user, file], { stdio: 'inherit' })
  const exited = once(child, 'exit')
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await exited
  })
  const through = Object.assign(new URL(db.url), { port: String(port), password: '' }).href
  await waitFor(async () => {
    const client = new Client({ connectionString: through })
    await client.connect()
    await client.end()
  })
  return through
}

test.skipIf(!isInstalled)(
  'the service works through PgBouncer with transaction pooling',
  async () => {
    const proxy = await startProxy(await startPgBouncer())
    const service = await startProcess({
      DATABASE_URL: proxy.through,
      DATABASE_LISTEN_URL: db.url,
      DATABASE_POOLING: 'transaction',
      // Debian's PgBouncer is older than 1.21, which supports prepared statements.
      DATABASE_PREPARED_STATEMENTS: 'off',
    })
    onTestFinished(() => service.kill())
    const transport = grpcTransport(service.grpcUrl)
    const { businessId, secretKey, accountNumber } = await openBusinessOver(transport)
    const sessions = Array.from({ length: 300 }, (_, index) => `session-${index}`)
    const transactions = createClient(TransactionService, transport)
    const record = (sessionId: string) =>
      transactions.recordPayment({
        bank: Bank.BANK_PROVIDUS,
        accountNumber,
        sessionId,
        amountMinor: 100n,
      })
    const recordAll = async () => {
      const all: { readonly outcome: RecordOutcome; readonly sent: number }[] = []
      for (let from = 0; from < sessions.length; from += 30)
        all.push(
          ...(await Promise.all(
            sessions.slice(from, from + 30).map((session) => untilServed(() => record(session))),
          )),
        )
      return all
    }
    const [recorded, repeated] = [await recordAll(), await recordAll()]
    const first = recorded.filter(({ sent }) => sent === 1)
    expect(new Set(first.map(({ outcome }) => outcome))).toEqual(new Set([RecordOutcome.RECORDED]))
    expect(new Set(repeated.map(({ outcome }) => outcome))).toEqual(
      new Set([RecordOutcome.DUPLICATE]),
    )
    const request = { session_id: 'session-7' }
    const { body } = await postRest(service.httpUrl, secretKey, 'getTransaction/', request)
    expect(body).toMatchObject({ data: { session_id: 'session-7' } })
    const received: string[] = []
    for await (const event of subscribe({
      addresses: [service.grpcAddress],
      token: ADMIN_TOKEN,
      start: { case: 'beginning', value: true },
    })) {
      received.push(event.id)
      if (received.length === sessions.length + 1) break
    }
    const log = await createClient(EventService, transport).listEvents({ businessId, limit: 500 })
    expect(log.events.map(({ id }) => id)).toEqual(received)
    const settled = await createClient(SettlementService, transport).settle({
      businessId,
      force: true,
    })
    expect(settled.settlements).toMatchObject([{ transactionCount: 300n }])
    const { rows } = await db.database.durablePool.query(
      'select count(*)::int as count from pg_stat_activity where datname = current_database()',
    )
    expect(rows[0].count).toBeLessThan(SERVER_CONNECTIONS + 12)

    // Only the way to PgBouncer is silent: the listener, which has a way of its own, does not notice.
    proxy.silence()
    proxy.endSilence()
    await waitFor(() => expect(proxy.lost()).toBe(0))
    expect(await waitFor(() => record('session-after'))).toMatchObject({
      outcome: RecordOutcome.RECORDED,
    })
  },
)
