import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { EventService } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { ENTITIES } from '../../src/app/entities.ts'
import { partitionedTables } from '../../src/app/tables.ts'
import { DAY_MS } from '../../src/core/durations.ts'
import { createRetention } from '../../src/events/retention.ts'
import { migrate } from '../../src/postgres/migrate.ts'
import { type Database, openDatabase } from '../../src/postgres/orm.ts'
import { createPartitionJob } from '../../src/postgres/partition-job.ts'
import { cutPartition, listPartitions } from '../../src/postgres/partitions.ts'
import { dispatchedUpTo } from '../../src/webhooks/deliveries/backlog.ts'
import { callerEnv, runHere } from '../cli/run-inflow.ts'
import { query } from '../support/database.ts'
import { startProcess } from '../support/process.ts'
import { startReceiver } from '../support/receiver.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { MASTER_KEY, useService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { openAccount, paymentInto } from '../transactions/fixture.ts'

const PAYMENTS = 20

/** Roles belong to the whole server, and tests share it. */
const suffix = randomBytes(4).toString('hex')
const renamed = (sql: string) => sql.replaceAll(/\binflow(_owner|_service)?\b/g, `$&_${suffix}`)

/** The SQL of the guide, as an operator pastes it: the roles, and the grants. */
const [ROLES = '', GRANTS = ''] = guide()
function guide(): string[] {
  const text = readFileSync(join(import.meta.dirname, '../../src/docs/operations.md'), 'utf8')
  const [, section = ''] = text.split('## Two database roles\n')
  const [until = ''] = section.split('\n## ')
  return [...until.matchAll(/```sql\n(.*?)```/gs)].map(([, sql = '']) => renamed(sql))
}

function urlAs(role: 'owner' | 'service'): string {
  const url = new URL(inject('serverUrl'))
  url.username = renamed(`inflow_${role}`)
  url.password = role === 'owner' ? 'one secret' : 'another secret'
  url.pathname = `/${renamed('inflow')}`
  return url.href
}

/** Runs one statement after another, as a paste into psql does. */
const paste = (url: string, sql: string) =>
  query(url, ...sql.split(/;\n/).filter((text) => text.trim() !== ''))

let database: Database

beforeAll(async () => {
  await paste(inject('serverUrl'), ROLES)
  await paste(urlAs('owner'), GRANTS)
  const owned = await openDatabase(urlAs('owner'), ENTITIES, { connectionsMax: 2 })
  expect(await migrate(owned)).toContain('Migration20261122000000_initial')
  await owned.close()
  database = await openDatabase(urlAs('service'), ENTITIES)
  // Before the service makes wider ones.
  for (const table of ['outbox', 'event_log']) {
    expect(await cutPartition(database.durablePool, table, { boundary: '5', suffix: '0' })).toBe(
      true,
    )
  }
})

const service = useService({}, undefined, {
  get url() {
    return urlAs('service')
  },
  get database() {
    return database
  },
})

afterAll(async () => {
  await database?.close()
  const dropped = ['database inflow with (force)', 'role inflow_owner', 'role inflow_service']
  for (const each of dropped) await paste(inject('serverUrl'), `drop ${renamed(each)}`)
})

const env = () => callerEnv(service)
const direct = () => ({ DATABASE_URL: urlAs('service'), MASTER_KEY: MASTER_KEY.toString('base64') })

/** Records a payment, and waits until its event has a position. */
async function payOnce(sessionId: string): Promise<void> {
  const { number } = await openAccount(service)
  await service.client(TransactionService).recordPayment(paymentInto(number, { sessionId }))
  await waitFor(async () => {
    const { rows } = await database.durablePool.query(
      `select count(*)::int as left from outbox o left join event_log l on l.outbox_seq = o.seq
        where l.position is null`,
    )
    expect(rows[0].left).toBe(0)
  })
}

describe('a service whose role owns nothing', () => {
  test('records payments, sequences events, sends webhooks, settles and reverses', async () => {
    const receiver = await startReceiver()
    const { businessId, number, key } = await openAccount(service)
    const webhooks = service.client(WebhookService)
    await webhooks.createEndpoint({ businessId, url: receiver.url })
    const payments = Array.from({ length: PAYMENTS }, (_, at) =>
      paymentInto(number, { sessionId: `s-${at}` }),
    )
    const { results } = await service.client(TransactionService).recordPayments({ payments })
    await receiver.waitFor((requests) => requests.length >= PAYMENTS)
    const found = await service.post('getTransaction/', key, { session_id: 's-0' })
    expect(found.body).toMatchObject({ status: true, data: { amount: 1000 } })

    const settlements = service.client(SettlementService)
    const settled = await settlements.settle({ businessId, force: true })
    expect(settled).toMatchObject({ completed: true, settlements: [{ transactionCount: 20n }] })
    await service
      .client(TransactionService)
      .reverseTransaction({ transactionId: results[0]!.transaction!.id, reason: 'test' })
    await receiver.waitFor((requests) => requests.length >= PAYMENTS + 2)
    await receiver.close()
  })

  test('begins an epoch, and numbers what follows', async () => {
    const events = service.client(EventService)
    const { epoch } = await events.bumpEpoch({})
    expect(epoch).toBe(2)
    await payOnce('after-epoch')
  })

  test('verifies the ledger and the audit log, and rotates the master key', async () => {
    for (const command of [
      ['ledger', 'verify'],
      ['audit', 'verify'],
    ]) {
      const verified = await runHere(command, env())
      expect(verified.code, verified.stderr).toBe(0)
    }
    const rotated = await runHere(['master-key', 'rotate'], direct())
    expect(rotated.code, rotated.stderr).toBe(0)
    expect((await runHere(['audit', 'verify'], env())).code).toBe(0)
    const doctor = await runHere(['doctor'], { ...direct(), ...env() })
    expect(doctor.stdout).toContain('master key')
    expect(doctor.stdout + doctor.stderr).not.toMatch(/permission denied|must be owner/)
  })

  test('drops events after their retention, and leaves archived entries', async () => {
    const retention = createRetention(
      createTestRuntime(database, { clock: { now: () => Date.now() + 30 * DAY_MS } }),
      { retentionDays: 1, dispatchedUpTo: () => dispatchedUpTo(database.durablePool) },
    )
    const { archived, dropped } = await retention.run()
    expect(archived).toBeGreaterThan(PAYMENTS)
    // The partitions may be in use at first.
    const all = [...dropped]
    await waitFor(async () => {
      all.push(...(await retention.run()).dropped)
      expect(all).toEqual(['outbox_0', 'event_log_0'])
    })
    const { rows } = await database.durablePool.query(
      'select count(*)::int as count from archived_entry',
    )
    expect(rows[0].count).toBeGreaterThan(PAYMENTS)
    expect((await runHere(['ledger', 'verify'], env())).code).toBe(0)
    await payOnce('after-retention')
  })

  test('makes partitions ahead', async () => {
    const { durablePool } = database
    const runtime = createTestRuntime(database)
    const tables = partitionedTables(runtime, {
      eventRetentionDays: 90,
      deliveryRetentionDays: 30,
    })
    const job = createPartitionJob(runtime, tables)
    // Another instance may be at it.
    await waitFor(async () => {
      expect((await job.run()).locked).toEqual([])
      for (const { table } of tables) {
        expect((await listPartitions(durablePool, table)).length, table).toBeGreaterThan(1)
      }
    })
    await payOnce('after-cuts')
  })

  test('starts with MIGRATE=off, and also without: nothing is pending', async () => {
    expect((await runHere(['migrate', 'status'], direct())).code).toBe(0)
    const owner = await runHere(['migrate', 'up'], { DATABASE_URL: urlAs('owner') })
    expect(owner).toMatchObject({ code: 0, stderr: expect.stringContaining('Nothing to do') })
    for (const MIGRATE of ['off', 'on']) {
      const started = await startProcess({ ...direct(), MIGRATE })
      expect(await started.stop()).toBe(0)
    }
  })
})

describe('the role of the service', () => {
  test('is no superuser, and owns no table and no function', async () => {
    const { rows } = await database.durablePool.query(
      `select rolsuper or rolcreaterole or rolcreatedb or rolbypassrls or rolreplication as strong,
          (select count(*)::int from pg_class where relowner = r.oid) as tables,
          (select count(*)::int from pg_proc where proowner = r.oid) as functions
        from pg_roles r where rolname = current_user`,
    )
    expect(rows).toEqual([{ strong: false, tables: 0, functions: 0 }])
  })

  test.each([
    ['alter table audit_entry disable trigger audit_entry_append_only', /must be owner/],
    ['alter table outbox disable trigger all', /must be owner/],
    ['alter table ledger_posting disable trigger user', /must be owner/],
    ['drop trigger audit_entry_chain on audit_entry', /must be owner/],
    ['alter table transaction drop constraint transaction_amount', /must be owner/],
    ['alter function append_only() rename to other', /must be owner/],
    ['create or replace function append_only() returns trigger language sql as $$ $$', /denied/],
    ['create table other ()', /permission denied for schema/],
    // It would hide the real one from the triggers.
    ['create temporary table ledger_posting (id text)', /permission denied to create temporary/],
    ['create trigger other before insert on outbox execute function append_only()', /denied/],
    ['drop table archived_entry', /must be owner/],
    ['truncate outbox', /permission denied for table/],
    ['truncate audit_entry', /permission denied for table/],
    ["set session_replication_role = 'replica'", /permission denied/],
    [`set role ${renamed('inflow_owner')}`, /permission denied/],
    ['update audit_entry set details = details', /never changed or removed/],
    ['delete from audit_entry', /never changed or removed/],
    ['delete from audit_mac', /never changed or removed/],
    ['update audit_head set number = number - 1', /one entry at a time/],
    ['update outbox set payload = payload', /never changed or removed/],
    ['update event_log set position = position', /never changed or removed/],
    ['delete from event_log', /never changed or removed/],
    ['delete from outbox', /never changed or removed/],
    ['update event_business_counter set pending_minor = 0', /never changed or removed/],
    ['insert into event_log_rest select * from event_log', /permission denied for table/],
    ['delete from outbox_rest', /permission denied for table/],
    ['delete from event_log_rest', /permission denied for table/],
    ['select drop_partition($$business$$, $$business$$)', /not a table whose partitions/],
    ['update ledger_posting set amount_minor = 1', /never changed or removed/],
    ['update transaction set amount_minor = 1', /cannot be changed/],
    ['delete from transaction', /never changed or removed/],
  ])('cannot: %s', async (sql, reason) => {
    await expect(database.durablePool.query(sql)).rejects.toThrow(reason)
  })
})
