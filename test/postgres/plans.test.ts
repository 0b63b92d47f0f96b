import type { DescMethod } from '@bufbuild/protobuf'
import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { KEY_SCOPES } from '../../src/auth/caller.ts'
import { readPositions } from '../../src/events/read-log.ts'
import { inTransaction } from '../../src/postgres/in-transaction.ts'
import { SUMMED_MAX } from '../../src/transactions/scan-transactions.ts'
import { SEEDED_BUSINESS, seedKey } from '../bench/seed.ts'
import { allMethods, nameOf, PROTOCOLS } from '../protocols/matrix/protocols.ts'
import { HAPPY, TAKE } from '../protocols/matrix/rows.ts'
import { authorizationOf, type Request, type Scene, setScene } from '../protocols/matrix/scene.ts'
import { scrape } from '../support/scrape.ts'
import { ADMIN_TOKEN, issueToken, useService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import {
  buffersOf,
  type Explained,
  nodesOf,
  type PlanNode,
  useExplainedDatabase,
} from './explained-database.ts'
import { CUSTOMER_OF_MANY, type ListRow, listRows, requestsOf } from './list-rows.ts'

const TRANSACTIONS = 80_000

/** Tables that stay small. All others must never be scanned. */
const SMALL = new Set([
  'audit_head',
  'event_epoch',
  'holiday',
  'master_key',
  'master_key_holder',
  'payout_sender',
  // The databases of the server, and the partitions of all tables.
  'pg_database',
  'pg_inherits',
  'pg_partitioned_table',
  'reconciliation_run',
  'schema_migration',
  'sequencer_tick',
  'event_retention',
  'log_follower',
  'settlement_sweep',
  'webhook_dispatcher',
  // Of items that wait for an operator, who wrote it.
  'review_note',
  // One row for each limit in use, which are swept; one for each bank and kind of notification.
  'rate_bucket',
  'bank_float',
])

/**
 * A page of 50, of each mode and state; or all that is left of a bounded scan of 1,000 rows, which the planner
 * sorts where it expects less than that to be left.
 */
const SORTED_MAX = 2_000

/** How many database pages a list of 50 rows and their accounts may read. */
const BUFFERS_MAX = 600

/** Until what the service does in the background of a new database is over. */
const TRIES_MAX = 40

/** The first page, and one near the end: a page in the middle costs no more. */
const ENDS = [undefined, 0.98]

/** Lists of what administrators make one by one, which a filter reads as a whole. */
const ADMINISTRATIVE = new Set(['AdminService.ListTokens', 'WebhookService.ListEndpoints'])

/** Methods that read everything: the verifications, and what an operator runs after a restore. */
const WHOLE = new Set([
  'SettlementService.VerifyLedger',
  'AdminService.VerifyAudit',
  'EventService.BumpEpoch',
])

/** The test must see a plan of each of these, or it proves nothing. */
const HOT: readonly RegExp[] = [
  /^with input as .* insert into transaction/s,
  /^select k.at::int4 as at/,
  /from api_key k join business/,
  /from internal_token where id/,
  /insert into event_log/,
  /from event_log l join outbox o on o.seq = l.outbox_seq cross join sequencer/,
  /^with lock as .* dispatcher as/s,
  /from list_partitions\('webhook_delivery'\)/,
  /^with due as/,
  /insert into webhook_attempt/,
  /insert into account /,
  /from payout where next_at <= now\(\)/,
  /from bank_float where available_minor/,
  /from payout_day/,
  /^insert into payout |insert into payout \(/,
]

// Seeding and explaining take most of a minute on a busy machine.

const methods = await allMethods()
/** The catalogues of events and institutions read no row. */
const isList = ({ name }: DescMethod): boolean =>
  /^(List|Search|SummarizeTransactions)/.test(name) && !/^List(EventKinds|Banks)$/.test(name)

const explained = useExplainedDatabase(TRANSACTIONS)
const service = useService({}, undefined, explained)
/** Statements that ran without a call: background work. */
const ownWork = new Set<string>()
/** They read all that is kept of a business, which is bounded, and what administrators make one by one, now and then. */
const isPurge = (text: string) =>
  /^(delete from api_request|with old as \(\s+select id from webhook_endpoint)/.test(text)
const isOwnWork = (text: string) => ownWork.has(text) || isPurge(text)
let secretKey: string

beforeAll(async () => {
  await service.database.durablePool.query(
    // A row that was changed takes a buffer more, so they are none of those that the lists of held payments read.
    `update account set email = $1 where id in (
        select id from account a where business_id = $2 and live and status = 'ACTIVE' and not exists (
          select from transaction t join payment_variance v on v.transaction_id = t.id where t.account_id = a.id)
        order by id limit 200)`,
    [CUSTOMER_OF_MANY, SEEDED_BUSINESS],
  )
  secretKey = await seedKey(service.url, SEEDED_BUSINESS, KEY_SCOPES)
})

async function call(
  method: DescMethod,
  request: Request,
  key = method.parent.name === 'ThirdPartyService' ? secretKey : ADMIN_TOKEN,
): Promise<void> {
  const outcome = await PROTOCOLS['gRPC from grpc-js']!(service, {
    method,
    request,
    authorization: `Bearer ${key}`,
    take: TAKE[nameOf(method)] ?? 1,
  })
  if (!('messages' in outcome)) throw new Error(`${nameOf(method)}: ${JSON.stringify(outcome)}`)
}

/** Rows that nodes of a kind took in, the most first. */
function inputOf({ plan }: Explained, type: RegExp): number {
  const rows = [...nodesOf(plan)]
    .filter((node) => type.test(node['Node Type']))
    .flatMap((node) => node.Plans ?? [])
    .map((node) => node['Actual Rows'] * node['Actual Loops'])
  return Math.max(0, ...rows)
}

/** The rows that a node reads, also those that it leaves out. A partition that was made ahead has none. */
function readRows(node: PlanNode): number {
  return node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)
}

function scannedTables({ plan }: Explained): string[] {
  return [...nodesOf(plan)]
    .filter((node) => node['Node Type'] === 'Seq Scan' && readRows(node) > 0)
    .map((node) => node['Relation Name'] ?? '')
    .filter((table) => !SMALL.has(table))
}

/** The faults of the statements' plans. */
function faultsOf(statements: readonly Explained[]): string[] {
  const checked = statements.filter(({ text }) => !isPurge(text))
  const faults = checked.flatMap((each) => [
    ...scannedTables(each).map((table) => `scans ${table}: ${each.text}`),
    ...(inputOf(each, /Sort/) > SORTED_MAX
      ? [`sorts ${inputOf(each, /Sort/)} rows: ${each.text}`]
      : []),
  ])
  return [...new Set(faults)]
}

describe('a page of a list', () => {
  const rows = listRows(TRANSACTIONS)

  test('every list has a row, and every filter is requested', () => {
    expect(Object.keys(rows).sort()).toEqual(methods.filter(isList).map(nameOf).sort())
    for (const method of methods.filter(isList)) {
      const { always = {}, filters = {} } = rows[nameOf(method)]!
      const known = ['pageSize', 'pageToken', 'limit', 'after', 'before']
      const fields = method.input.fields
        .filter(({ proto }) => !proto.options?.deprecated)
        .map((field) => field.localName)
      const asked = [...Object.keys(always), ...Object.keys(filters)]
      expect(fields.filter((field) => !known.includes(field) && !asked.includes(field))).toEqual([])
    }
  })

  const growing = methods.filter((method) => isList(method) && !ADMINISTRATIVE.has(nameOf(method)))
  test.each(growing.map((method) => [nameOf(method), method] as const))(
    '%s costs little wherever it is and whatever it is filtered by',
    async (name, method) => {
      const max = rows[name]!.buffersMax ?? BUFFERS_MAX
      const costs = await costsOf(method, rows[name]!, max)
      // Without statements the call would prove nothing.
      expect(costs.filter(({ buffers }) => buffers === 0 || buffers > max)).toEqual([])
    },
  )
})

/** After this many calls a prepared statement has its final, generic plan. */
const REPEATS = 7

const CALLED_OFTEN =
  /^(ThirdPartyService\.(Create|Generate|Get|List|Refund|Requery|Simulate)|TransactionService\.(Record|Get)|AccountService\.(Create|Get)|SandboxService\.)/

/** The events of the scene are the last of the log: a subscriber to them alone would read all others first. */
const FROM_THE_BEGINNING: Request = {
  start: { case: 'beginning', value: true },
  businessIds: [SEEDED_BUSINESS],
}

describe('every method', () => {
  let scene: Scene

  beforeAll(async () => {
    explained.take()
    scene = await setScene(service)
  })

  afterAll(() => scene?.close())

  test('scans no growing table and sorts nothing large', async () => {
    const ran: Explained[] = []
    const admin = service.client(AdminService)
    const { secret: token } = await admin.issueToken({ name: 'plans', scopes: ['admin'] })
    for (const method of methods) {
      const name = nameOf(method)
      if (WHOLE.has(name)) continue
      const forKeys = method.parent.name === 'ThirdPartyService'
      const key = forKeys ? authorizationOf(scene, name).slice('Bearer '.length) : token
      for (let i = 0; i < (CALLED_OFTEN.test(name) ? REPEATS : 1); i++) {
        const request =
          name === 'EventService.Subscribe'
            ? FROM_THE_BEGINNING
            : await HAPPY[name]!(scene, `fresh-${name}-${i}`)
        await call(method, request, key)
      }
      ran.push(...explained.take())
    }
    expect(HOT.filter((hot) => !ran.some(({ text }) => hot.test(text)))).toEqual([])
    expect(faultsOf(ran)).toEqual([])
  })
})

/** Lists of all businesses, as a token that is restricted to some of them asks. */
const OF_SOME: readonly (readonly [name: string, request: Request])[] = [
  ['TransactionService.ListTransactions', { live: true }],
  ['TransactionService.ListTransactions', { live: true, amountFromMinor: 2n ** 40n }],
  ['TransactionService.ListTransactions', { live: true, statuses: [1, 3, 4] }],
  ['TransactionService.ListTransactions', { live: false, recordedTo: { seconds: 1n } }],
  ['TransactionService.SummarizeTransactions', { live: true, amountFromMinor: 2n ** 40n }],
  ['WebhookService.ListEndpoints', { failing: true }],
  ['AccountService.ListAccounts', { bank: 1 }],
  ['BusinessService.ListBusinesses', { query: 'Business' }],
  ['SettlementService.ListSettlements', { to: { seconds: 1n } }],
  ['SettlementService.GetSettlementCalendar', { month: '2026-01' }],
  ['PayoutService.ListPayouts', {}],
  ['PayoutService.ListPayouts', { statuses: [6, 7] }],
  ['PayoutService.ListPayouts', { statuses: [5], purpose: 1 }],
  ['PayoutService.ListPauses', {}],
]

test('a list of some businesses scans no growing table and sorts nothing large', async () => {
  const { rows } = await service.database.durablePool.query<{ id: string }>(
    'select id from business order by id limit 20',
  )
  const businessIds = [...new Set([SEEDED_BUSINESS, ...rows.map(({ id }) => id)])]
  const { secret } = await issueToken(service, ['read'], businessIds)
  const ran: Explained[] = []
  explained.take()
  for (const [name, each] of OF_SOME) {
    const method = methods.find((found) => nameOf(found) === name)!
    await call(method, each, secret)
    ran.push(...explained.take())
  }
  expect(faultsOf(ran)).toEqual([])
})

test('totals read a bounded number of payments, the latest ones', async () => {
  const request = { businessId: SEEDED_BUSINESS, live: true }
  const totals = await service.client(TransactionService).summarizeTransactions(request)
  const { rows } = await service.database.durablePool.query<{ sum: string }>(
    `select sum(amount_minor) as sum from (
        select * from transaction where business_id = $1 and live order by paid_at desc, id desc limit $2) latest`,
    [SEEDED_BUSINESS, SUMMED_MAX],
  )
  expect(totals).toMatchObject({ count: SUMMED_MAX, truncated: true })
  expect(totals.amountMinor).toBe(BigInt(rows[0]!.sum))
})

/** The statements of the gauges that read tables which grow. */
const GAUGES: readonly RegExp[] = [
  /as "dueSeconds"/,
  /from \(select bank, received_at from bank_notification/,
  /as \(?.*from webhook_endpoint e where e\.live = m\.live/s,
  /from settlement_due/,
  /from unmatched_payment/,
  /from payment_conflict/,
]

/** The rows that a gauge of a backlog counts. */
const COUNTED_MAX = 20_000

test('a scrape scans no growing table, and counts a large backlog up to a bound', async () => {
  const { durablePool } = service.database
  // It has just grown: the statistics know none of it. Nothing of it is due.
  await inTransaction(durablePool, async (client) => {
    await client.query("set local statement_timeout = '10min'")
    await client.query(
      `update webhook_delivery set state = 'PENDING', completed_at = null, failure = null,
        due_at = now() + interval '1 day'`,
    )
  })
  await durablePool.query(
    "update bank_notification set state = 'PENDING', next_try_at = now() + interval '1 day'",
  )
  explained.take()
  const ran: Explained[] = []
  await waitFor(async () => {
    const { sum } = await scrape(service.httpUrl)
    ran.push(...explained.take())
    // A busy machine may leave some out of the first scrape.
    expect(GAUGES.filter((gauge) => !ran.some(({ text }) => gauge.test(text)))).toEqual([])
    expect(sum('inflow_webhook_deliveries_pending')).toBeGreaterThan(COUNTED_MAX / 10)
    expect(sum('inflow_webhook_deliveries_pending')).toBeLessThanOrEqual(COUNTED_MAX)
    expect(sum('inflow_bank_notifications_pending')).toBeGreaterThan(5_000)
    expect(sum('inflow_review_items')).toBeGreaterThan(2_000)
  })
  const scanned = ran.flatMap((each) =>
    scannedTables(each).map((table) => `${table}: ${each.text}`),
  )
  expect([...new Set(scanned)]).toEqual([])
})

test('values make no plan of the reads of the log cheaper, so that PostgreSQL keeps one', async () => {
  const client = await service.database.relaxedPool.connect()
  try {
    await readPositions({ query: client.query.bind(client) } as unknown as pg.Pool, [1n])
    const found = await client.query<{ statement: string }>(
      "select statement from pg_prepared_statements where name = 'event-log-read-positions'",
    )
    await client.query(`prepare again as ${found.rows[0]?.statement}`)
    const costOf = async (mode: string): Promise<number> => {
      await client.query(`set plan_cache_mode = ${mode}`)
      const { rows } = await client.query("explain (format json) execute again ('{1}')")
      return rows[0]['QUERY PLAN'][0].Plan['Total Cost']
    }
    const withValues = await costOf('force_custom_plan')
    expect((await costOf('force_generic_plan')) / withValues).toBeLessThan(1.01)
  } finally {
    client.release(true)
  }
})

interface Cost {
  readonly request: object
  readonly part: number | undefined
  readonly buffers: number
}

/** The cost of the first page and of those at fractions of the list, with every filter. */
async function costsOf(method: DescMethod, row: ListRow, max: number): Promise<Cost[]> {
  const costs: Cost[] = []
  for (const request of requestsOf(row)) {
    for (const part of row.at ? ENDS : [undefined]) {
      const place =
        part === undefined ? {} : await row.at!(service.database.durablePool, part, request)
      let buffers = Number.POSITIVE_INFINITY
      // The minimum of several runs excludes background work.
      for (let i = 0; i < TRIES_MAX && buffers > max; i++) {
        for (const { text } of explained.take()) ownWork.add(text)
        await call(method, { ...request, ...place })
        const ran = explained.take().filter(({ text }) => !isOwnWork(text))
        expect(faultsOf(ran)).toEqual([])
        buffers = Math.min(
          buffers,
          ran.reduce((sum, each) => sum + buffersOf(each), 0),
        )
      }
      costs.push({ request, part, buffers })
    }
  }
  return costs
}
