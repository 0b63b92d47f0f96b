import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { EventService } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { OverviewService } from '../../gen/inflow/overview/v1/overview_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { readForeignSettings, requireSettings } from '../../src/postgres/session.ts'
import { setForDatabase, useDatabase } from '../support/database.ts'
import { pages } from '../support/pages.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { type TestService, useService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { openAccount, paymentInto, transactionsOf } from '../transactions/fixture.ts'

/** What a role or a database may say, and no plan, result or promise of ours may depend on. */
const HOSTILE: Readonly<Record<string, string>> = {
  default_transaction_isolation: 'serializable',
  synchronous_commit: 'off',
  search_path: 'pg_catalog',
  TimeZone: 'Asia/Kathmandu',
  DateStyle: 'German, DMY',
  IntervalStyle: 'sql_standard',
  bytea_output: 'escape',
  standard_conforming_strings: 'off',
  extra_float_digits: '-15',
  array_nulls: 'off',
  quote_all_identifiers: 'on',
  row_security: 'off',
  lock_timeout: '1ms',
  statement_timeout: '1ms',
  idle_in_transaction_session_timeout: '1ms',
  idle_session_timeout: '50ms',
  client_min_messages: 'debug5',
  jit: 'on',
  jit_above_cost: '0',
  jit_inline_above_cost: '0',
  jit_optimize_above_cost: '0',
  plan_cache_mode: 'force_custom_plan',
  max_parallel_workers_per_gather: '8',
  parallel_setup_cost: '0',
  parallel_tuple_cost: '0',
  min_parallel_table_scan_size: '0',
  seq_page_cost: '0.001',
  random_page_cost: '10000',
  cpu_tuple_cost: '10',
  cpu_index_tuple_cost: '1000',
  cpu_operator_cost: '10',
  effective_cache_size: '8kB',
  work_mem: '64kB',
  hash_mem_multiplier: '1000',
  from_collapse_limit: '1',
  join_collapse_limit: '1',
  constraint_exclusion: 'on',
  geqo: 'off',
  geqo_threshold: '2',
  default_statistics_target: '1',
  enable_bitmapscan: 'off',
  enable_hashagg: 'off',
  enable_hashjoin: 'off',
  enable_incremental_sort: 'off',
  enable_indexonlyscan: 'off',
  enable_indexscan: 'off',
  enable_material: 'off',
  enable_memoize: 'off',
  enable_mergejoin: 'off',
  enable_nestloop: 'off',
  enable_partition_pruning: 'off',
  enable_partitionwise_aggregate: 'on',
  enable_partitionwise_join: 'on',
  enable_seqscan: 'on',
  enable_sort: 'off',
  enable_tidscan: 'off',
}

let receiver: Receiver
beforeAll(async () => {
  receiver = await startReceiver()
})
afterAll(async () => receiver?.close())

const friendly = useService()
/** Its database says all of it to each new session. */
const hostile = useService(
  {},
  undefined,
  useDatabase(16, (url) => setForDatabase(url, HOSTILE)),
)

describe('whatever a database says to its sessions', () => {
  test('those of the service have their own settings, in each pool', async () => {
    const { durablePool, recordingPool, relaxedPool } = hostile.database
    expect(await readForeignSettings(durablePool)).toEqual([])
    expect(await readForeignSettings(recordingPool)).toEqual([])
    expect(await readForeignSettings(relaxedPool)).toEqual([])
    const commits = (on: pg.Pool) => on.query('show synchronous_commit').then(({ rows }) => rows)
    expect(await commits(durablePool)).toEqual([{ synchronous_commit: 'on' }])
    expect(await commits(recordingPool)).toEqual([{ synchronous_commit: 'on' }])
    expect(await commits(relaxedPool)).toEqual([{ synchronous_commit: 'off' }])
  })

  test('a session that dropped them is found, with the statements that mend it', async () => {
    // Of what is hostile, all but what would end this session.
    const options = '-c statement_timeout=0 -c idle_session_timeout=0'
    const plain = new pg.Client({ connectionString: hostile.url, options })
    await plain.connect()
    try {
      const found = await readForeignSettings(plain)
      const of = (setting: string) => found.find(({ name }) => name === setting)
      expect(of('jit')).toMatchObject({ value: 'on', isRequired: false })
      expect(of('DateStyle')).toMatchObject({ value: 'German, DMY', isRequired: true })
      await expect(requireSettings(plain)).rejects.toThrow(
        'default_transaction_isolation is serializable',
      )
      const role = 'alter role current_user in database'
      await plain.query(`${role} ${databaseOf(hostile)} set idle_session_timeout = 0`)
      for (const { statement } of found) await plain.query(statement)
    } finally {
      await plain.end()
    }
    const mended = new pg.Client({ connectionString: hostile.url, options })
    await mended.connect()
    try {
      expect(await readForeignSettings(mended)).toEqual([])
      for (const name of Object.keys(HOSTILE)) {
        await mended.query(
          `alter role current_user in database ${databaseOf(hostile)} reset ${name}`,
        )
      }
    } finally {
      await mended.end()
    }
  })

  test('payments, events, webhooks, settlement and lists are the same', async () => {
    expect(await mainJob(hostile)).toEqual(await mainJob(friendly))
  })
})

function databaseOf(service: TestService): string {
  return new URL(service.url).pathname.slice(1)
}

/** Everything a business does in a day, as it comes back over the protocols, without ids and times. */
async function mainJob(service: TestService) {
  const account = await openAccount(service)
  const other = await openAccount(service)
  const { businessId, number, key } = account
  const path = `/${number}`
  const before = receiver.requests.length
  const webhooks = service.client(WebhookService)
  await webhooks.createEndpoint({ businessId, url: `${receiver.url}${path}` })
  const transactions = transactionsOf(service)
  const outcomes = []
  for (const payment of [
    paymentInto(number, { sessionId: 'p-1', amountMinor: 150_050n, narration: "O'Neil \\ 100 %" }),
    paymentInto(number, { sessionId: 'p-1', amountMinor: 150_050n }),
    paymentInto(number, { sessionId: 'p-1', amountMinor: 1n }),
    paymentInto('0000000000', { sessionId: 'p-2' }),
    paymentInto(other.number, { sessionId: 'p-3', payer: { name: 'Ngozi Ệkwueme' } }),
  ]) {
    outcomes.push((await transactions.recordPayment(payment)).outcome)
  }
  const payments = Array.from({ length: 50 }, (_, i) =>
    paymentInto(number, { sessionId: `b-${i}`, amountMinor: BigInt(1_000 + i) }),
  )
  const { results } = await transactions.recordPayments({ payments })
  const { transaction } = await transactions.recordPayment(paymentInto(number, { sessionId: 'r' }))
  await transactions.reverseTransaction({ transactionId: transaction!.id, reason: 'test' })
  const settlements = service.client(SettlementService)
  // The settlement waits for the numbers of events for two seconds at most.
  await waitFor(async () => {
    const { rowCount } = await service.database.durablePool.query(
      `select from outbox o where business_id = $1
        and not exists (select from event_log l where l.outbox_seq = o.seq)`,
      [businessId],
    )
    expect(rowCount).toBe(0)
  })
  await settlements.settle({ businessId, requestId: 'r-1', force: true })
  await settlements.verifyLedger({})
  const events = await eventsOf(service, businessId)
  await waitFor(() =>
    expect(deliveriesTo(path, before)).toHaveLength(
      // The account was opened before the endpoint.
      events.filter(({ kind }) => kind !== 'ACCOUNT_CREATED').length,
    ),
  )
  const listed = await pages(async (pageToken) => {
    const page = await transactions.listTransactions({ businessId, pageSize: 7, pageToken })
    return { items: page.transactions, next: page.nextPageToken }
  })
  return plain({
    outcomes,
    batch: results.map(({ outcome }) => outcome),
    events: events.map(({ kind, businessSequence }) => [kind, businessSequence]),
    delivered: deliveriesTo(path, before),
    balance: (await settlements.getBalance({ businessId })).balance,
    settlements: (await settlements.listSettlements({ businessId })).settlements.length,
    entries: (await settlements.listEntries({ businessId, pageSize: 100 })).entries.map(
      ({ kind, sequence }) => [kind, sequence],
    ),
    listed: listed
      .map(({ sessionId, amountMinor, status }) => [sessionId, amountMinor, status])
      .toSorted(),
    foreign: (await service.post('getTransaction/', key, { session_id: 'p-3' })).status,
    looked: (await service.post('getTransaction/', key, { session_id: 'p-1' })).body.data,
    refused: (await service.post('generateVirtualAccount/', key, { bank: 'X' })).body.errors,
    found: (await service.client(OverviewService).search({ query: 'b-7', businessId })).results
      .length,
  })
}

/** The business's events, once the log has the settlement. */
async function eventsOf(service: TestService, businessId: string) {
  const events = []
  const stream = service
    .client(EventService)
    .subscribe({ start: { case: 'beginning', value: true }, businessIds: [businessId] })
  for await (const { item } of stream) {
    if (item.case !== 'event') continue
    events.push(item.value)
    if (item.value.kind === 'SETTLEMENT_COMPLETED') break
  }
  return events
}

/** What arrived there since, in the order of its sequence. What is sent again arrives twice. */
function deliveriesTo(path: string, since: number) {
  const arrived = receiver.requests.slice(since).filter((request) => request.path === path)
  const bodies = new Map(arrived.map(({ headers, rawBody }) => [headers['webhook-id'], rawBody]))
  return [...bodies.values()]
    .map((body) => JSON.parse(body))
    .map(({ event, data }) => [event, data.sequence, data.amount ?? null, data.type ?? null])
    .toSorted(([, a], [, b]) => a - b)
}

/** Without what differs between two runs of the same: ids, numbers of accounts, times. */
function plain(value: unknown): unknown {
  const text = JSON.stringify(value, (name, each) => {
    if (/(^|_)(id|reference|at|nuban|account_number)$/.test(name)) return typeof each
    if (typeof each === 'bigint') return `${each}n`
    return each
  })
  return JSON.parse(text)
}
