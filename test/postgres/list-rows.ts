import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import type { Pool } from 'pg'
import { TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { DAY_MS } from '../../src/core/durations.ts'
import { pageTokenOf } from '../../src/postgres/page-token.ts'
import { SEEDED_BUSINESS, sessionIdOf } from '../bench/seed.ts'

type Request = Readonly<Record<string, unknown>>

/** The requests for the pages of one list. */
export interface ListRow {
  /** Fields of every request. */
  readonly always?: Request
  /** The values of each filter, beside absent. Every combination of a few filters is requested. */
  readonly filters?: Readonly<Record<string, readonly unknown[]>>
  /** Combinations that the contract rejects, or that add nothing. */
  readonly refused?: (request: Request) => boolean
  /** Requests the page at a fraction of the list, from 0 to 1. Absent: there is one page. */
  readonly at?: (pool: Pool, part: number, request: Request) => Promise<Request>
  /** How many database pages it may read; absent: the bound of a list of 50 rows. */
  readonly buffersMax?: number
}

/** A customer of the seeded business with more accounts than a list reads. */
export const CUSTOMER_OF_MANY = 'many@example.com'

/** A business, its mode and a period of time. */
const FILTERS_MAX = 4

/** A page by recorded time with a rare filter reads a thousand events, and what they are of. */
const RECORDED_BUFFERS_MAX = 14_000

/** Totals read ten thousand payments, and with a variance what is known of each; by recorded time, ten pages. */
const SUMMED_BUFFERS_MAX = 10 * RECORDED_BUFFERS_MAX

/** A common kind, and one that there is none of: a page with it passes over a thousand events. */
const KINDS = [['PAYMENT_NOTIFICATION'], ['ENDPOINT_TEST']]
const EVENTS_BUFFERS_MAX = 7_000

/** The last row before a fraction of a table in list order, for the page token. */
function tokenAt(columns: string, from: string, order: string): NonNullable<ListRow['at']> {
  // Counts the whole table: once, not for every combination of filters.
  const found = new WeakMap<Pool, Map<number, Request>>()
  return async (pool, part) => {
    const known = found.get(pool)?.get(part)
    if (known) return known
    const { rows } = await pool.query<{ key: string[] }>(
      `select array[${columns}] as key from ${from} order by ${order}
        offset greatest(0, floor($1::float8 * (select count(*) - 1 from ${from}))) limit 1`,
      [part],
    )
    const request = { pageToken: pageTokenOf(rows[0]!.key) }
    found.set(pool, (found.get(pool) ?? new Map()).set(part, request))
    return request
  }
}

const OF_BUSINESS = `business_id = '${SEEDED_BUSINESS}' and live`

const TRANSACTIONS_AT = tokenAt(
  `(extract(epoch from paid_at) * 1000)::bigint::text, id`,
  `transaction where ${OF_BUSINESS}`,
  'paid_at desc, id desc',
)

/** In the middle of the list by recorded time, which is that of the events. */
const RECORDED_AT: NonNullable<ListRow['at']> = async (pool, part) => {
  const { after } = await EVENTS_AT(pool, part, {})
  return { pageToken: pageTokenOf([`${after}`]) }
}

/** The payments of a session are one page. */
const inEitherOrder: NonNullable<ListRow['at']> = async (pool, part, request) => {
  if (request['sessionId'] !== undefined) return {}
  return (isByRecordedTime(request) ? RECORDED_AT : TRANSACTIONS_AT)(pool, part, request)
}

/** The list by recorded time is of one mode, and of payments with events. A session has few payments. */
function isRefused(request: Request): boolean {
  const { status, live, businessId, sessionId, reference } = request
  if (isOpenPeriod(request)) return true
  if (sessionId !== undefined) {
    const others = [status, reference, request['from'], isByRecordedTime(request) || undefined]
    return others.some((other) => other !== undefined)
  }
  if (!isByRecordedTime(request)) return false
  if (businessId !== undefined && live === undefined) return true
  return ['FAILED', 'PENDING', TransactionStatus.FAILED, TransactionStatus.PENDING].includes(
    status as string,
  )
}

/** What no index is ordered by is requested one at a time: all of it is applied to the same rows. */
function isRefusedOfAll(request: Request): boolean {
  const { businessId, reference, from, to, live, sessionId, status, statuses, ...others } = request
  const { recordedFrom, recordedTo, ...filters } = others
  const filtered = [statuses, ...Object.values(filters)].filter((each) => each !== undefined)
  if (filtered.length > 1) return true
  if (filtered.length === 1 && [reference, sessionId, status].some((each) => each !== undefined)) {
    return true
  }
  const isByTime = recordedFrom !== undefined || recordedTo !== undefined
  if (businessId === undefined) {
    if (sessionId !== undefined && isByTime) return true
    return (
      live === undefined ||
      [reference, from, to, others['customerEmail']].some((each) => each !== undefined)
    )
  }
  if (isByTime && Array.isArray(statuses) && statuses.includes(1)) return true
  return isRefused(request)
}

function isByRecordedTime({ recordedFrom, recordedTo }: Request): boolean {
  return recordedFrom !== undefined || recordedTo !== undefined
}

/** Rare statuses alone are listed in the order of payment. */
const ALL_TRANSACTIONS_AT: NonNullable<ListRow['at']> = async (pool, part, request) => {
  if (request['sessionId'] !== undefined) return {}
  const { status, statuses = status === undefined ? undefined : [status] } = request
  const isRare = Array.isArray(statuses) && !statuses.includes(TransactionStatus.SUCCESS)
  return (isRare && !isByRecordedTime(request) ? RARE_AT : ALL_AT)(pool, part, request)
}
const RARE_AT = tokenAt(
  `(extract(epoch from paid_at) * 1000)::bigint::text, id`,
  `transaction where status <> 'SUCCESS'`,
  'paid_at desc, id desc',
)
const ALL_AT = tokenAt('id', 'transaction', 'id desc')
const BUSINESSES_AT = tokenAt('id', 'business', 'id desc')

/** A settlement in live mode of the seeded business. */
const SETTLEMENT = `stl_00${'24'.padStart(24, '0')}`

const HELD_AT = tokenAt(
  'transaction_id',
  `payment_variance where ${OF_BUSINESS} and hold in ('HELD', 'RETURN_REQUESTED')`,
  'transaction_id desc',
)
const AUDIT_AT = tokenAt('number::text', 'audit_entry', 'number desc')
const AUDIT_FROM_OLDEST_AT = tokenAt('number::text', 'audit_entry', 'number asc')

/** In the middle of the list of each kind. */
const REVIEW_AT: NonNullable<ListRow['at']> = async (pool, part) => {
  const keyAt = async (key: string, from: string, order: string) => {
    const { rows } = await pool.query<{ key: string }>(
      `select ${key} as key from ${from} order by ${order}
        offset greatest(0, floor($1::float8 * (select count(*) - 1 from ${from}))) limit 1`,
      [part],
    )
    return rows[0]?.key ?? ''
  }
  const since = '(extract(epoch from failing_since) * 1000)::bigint'
  const places = [
    keyAt('id', 'unmatched_payment where resolution is null', 'id'),
    keyAt('id', "bank_notification where state = 'MANUAL_REVIEW'", 'id'),
    keyAt('id', 'payment_conflict where resolved_at is null', 'id'),
    keyAt('id', "account where status = 'PENDING' and opening_state = 'MANUAL_REVIEW'", 'id'),
    keyAt('transaction_id', "payment_variance where hold = 'HELD'", 'transaction_id'),
    keyAt(`${since} || ' ' || id`, 'webhook_endpoint where failing_since is not null', 'id'),
    // Overdue balances: there are none.
    '',
    keyAt('id', "payout where status = 'PENDING_APPROVAL'", 'id'),
    keyAt('id', "payout where status in ('UNKNOWN', 'MANUAL_REVIEW')", 'id'),
    keyAt('id', 'payout_discrepancy where resolved_at is null', 'id'),
  ]
  return { pageToken: pageTokenOf(await Promise.all(places)) }
}

const EVENTS_AT: NonNullable<ListRow['at']> = async (pool, part, request) => {
  const { rows } = await pool.query<{ last: string }>(
    `select max(last_sequence) as last from event_business_counter where ${OF_BUSINESS}`,
  )
  return placeAt(Number(rows[0]!.last) * part, request)
}

/** In the log of all businesses. */
const POSITION_AT: NonNullable<ListRow['at']> = async (pool, part, request) => {
  const { rows } = await pool.query<{ last: string }>('select position as last from sequencer')
  return placeAt(Number(rows[0]!.last) * part, request)
}

function placeAt(number: number, { newestFirst }: Request): Request {
  const at = BigInt(Math.floor(number))
  return newestFirst === true ? { before: at } : { after: at }
}

/** From twenty to ten days ago; payments are a second apart, audit entries a minute. */
const period = (nowMs: number, from: number, to: number) => ({
  from: timestampFromMs(nowMs - from),
  to: timestampFromMs(nowMs - to),
})

/** Every list rpc. A new one needs a row. */
export function listRows(transactions: number): Readonly<Record<string, ListRow>> {
  const nowMs = Date.now()
  const spanMs = transactions * 1_000
  const middle = period(nowMs, spanMs * 0.6, spanMs * 0.5)
  const transactionFilters = {
    businessId: [SEEDED_BUSINESS],
    reference: [`R-${'1'.padStart(20, 'A')}`, `R-${'2'.padStart(20, 'A')}`],
    status: [1, 2, 3, 4],
    from: [middle.from],
    to: [middle.to],
    live: [true, false],
    recordedFrom: [timestampFromMs(nowMs - spanMs)],
    recordedTo: [timestampFromMs(nowMs + DAY_MS)],
    sessionId: [sessionIdOf(1)],
    bank: [3],
    amountFromMinor: [100n],
    amountToMinor: [1n],
    statuses: [
      [1, 3],
      [2, 4],
    ],
    variances: [[3]],
    holdStates: [[4]],
    customerEmail: [CUSTOMER_OF_MANY],
  }
  return {
    'AccountService.ListAccounts': {
      filters: {
        businessId: [SEEDED_BUSINESS],
        status: [1, 2, 3],
        live: [true, false],
        idNumber: ['12345678901'],
        idType: [1],
        bank: [1, 3],
        openingStates: [[5]],
        customerEmail: ['ada.obi@example.com'],
      },
      refused: ({ businessId, customerEmail, idType, idNumber, openingStates, status }) =>
        (customerEmail !== undefined && businessId === undefined) ||
        (idType !== undefined && idNumber === undefined) ||
        (openingStates !== undefined && (status ?? 1) !== 1),
      at: tokenAt('id', `account where ${OF_BUSINESS}`, 'id desc'),
      // A page with a rare bank reads a thousand accounts.
      buffersMax: 2_500,
    },
    'ThirdPartyService.ListVirtualAccounts': {
      filters: { status: ['PENDING', 'ACTIVE', 'CLOSED'] },
      at: tokenAt('id', `account where ${OF_BUSINESS}`, 'id desc'),
      buffersMax: 800,
    },
    'SessionService.ListSessions': {
      filters: { activeOnly: [true] },
      at: tokenAt('id', 'session', 'id desc'),
    },
    'SessionService.ListPortalLinks': {
      filters: { businessId: [SEEDED_BUSINESS], activeOnly: [true] },
      at: tokenAt('id', 'portal_link', 'id desc'),
    },
    'AdminService.ListTokens': {
      filters: { active: [true, false] },
      at: tokenAt('id', 'internal_token', 'id desc'),
      buffersMax: 2_500,
    },
    'AdminService.ListAuditEntries': {
      filters: {
        businessId: [SEEDED_BUSINESS],
        actorId: ['tok_rare'],
        action: ['key.issue'],
        targetId: ['key_rare'],
        from: [timestampFromMs(nowMs - transactions * 3_000)],
        to: [timestampFromMs(nowMs - transactions * 2_000)],
        oldestFirst: [true],
      },
      refused: isOpenPeriod,
      at: (pool, part, request) =>
        (request['oldestFirst'] ? AUDIT_FROM_OLDEST_AT : AUDIT_AT)(pool, part, request),
      buffersMax: 2_000,
    },
    'BusinessService.ListBusinesses': {
      filters: { query: ['Business', 'None'], businessIds: [[SEEDED_BUSINESS, 'biz_none']] },
      // What matches is on one page.
      at: async (pool, part, request) =>
        request['query'] === undefined ? BUSINESSES_AT(pool, part, request) : {},
    },
    'BusinessService.ListApiRequests': {
      filters: {
        businessId: [SEEDED_BUSINESS],
        live: [true],
        keyId: ['key_rare'],
        statusClass: [2, 4],
        path: ['none'],
        requestId: ['req_none'],
        from: [timestampFromMs(nowMs - DAY_MS)],
        to: [timestampFromMs(nowMs)],
      },
      refused: isOpenPeriod,
      // Of one business, a filter reads all that is kept.
      buffersMax: 4_000,
    },
    'BusinessService.ListKeys': {
      always: { businessId: SEEDED_BUSINESS },
      at: tokenAt('id', `api_key where ${OF_BUSINESS}`, 'id desc'),
    },
    'AccountService.ListSplitRecipients': {
      always: { businessId: SEEDED_BUSINESS },
      at: tokenAt(
        'recipient_id',
        `split_approval where business_id = '${SEEDED_BUSINESS}'`,
        'recipient_id',
      ),
    },
    'EventService.ListEvents': {
      filters: {
        businessId: [SEEDED_BUSINESS],
        live: [false],
        kinds: KINDS,
        newestFirst: [true],
      },
      at: (pool, part, request) =>
        (request['businessId'] === undefined ? POSITION_AT : EVENTS_AT)(pool, part, request),
      buffersMax: EVENTS_BUFFERS_MAX,
    },
    'HeldPaymentService.ListHeldPayments': {
      filters: { businessId: [SEEDED_BUSINESS], holdState: [1, 3], live: [true, false] },
      at: HELD_AT,
    },
    'ThirdPartyService.ListHeldPayments': { at: HELD_AT },
    'ThirdPartyService.ListPayouts': {
      filters: {
        status: ['PAID', 'FAILED', 'UNKNOWN', 'REJECTED'],
        from: [new Date(nowMs - spanMs).toISOString()],
        to: [new Date(nowMs).toISOString()],
      },
      at: tokenAt('id', `payout where ${OF_BUSINESS} and live`, 'id desc'),
      buffersMax: 2_500,
    },
    'OverviewService.Search': {
      // Parts are looked for in 2,000 payments and accounts; those of test mode lie apart.
      buffersMax: 2_600,
      filters: {
        query: [
          sessionIdOf(1),
          `txn_01${'1'.padStart(24, '0')}`,
          `acc_00${'1'.padStart(24, '0')}`,
          `R-${'1'.padStart(20, 'A')}`,
          'old-1',
          '0000000001',
          'ada.obi@example.com',
          `evt_00${'1'.padStart(24, '0')}`,
          `dlv_01${'1'.padStart(24, '0')}`,
          `ep_01${'1'.padStart(24, '0')}`,
          SEEDED_BUSINESS,
          'Business',
          'Obi',
          '1500.50',
          `stl_00${'1'.padStart(24, '0')}`,
          `tok_00${'1'.padStart(24, '0')}`,
          `sk_live_00${'1'.padStart(8, '0')}`,
          `ntf_00${'1'.padStart(24, '0')}`,
          `unm_00${'1'.padStart(24, '0')}`,
        ],
        businessId: [SEEDED_BUSINESS],
        live: [true, false],
      },
      // What belongs to no business, and to live mode or none, is not looked up within others.
      refused: ({ query, businessId, live }) =>
        query === undefined ||
        (/^(tok|ntf|unm)_/.test(`${query}`) && businessId !== undefined) ||
        (/^(ntf|unm)_/.test(`${query}`) && live === false),
    },
    'OverviewService.ListReviewItems': {
      filters: {
        kinds: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map((kind) => [kind]),
        businessId: [SEEDED_BUSINESS],
        live: [true, false],
      },
      // No business has the first two kinds, nor has test mode: nothing is read.
      refused: ({ kinds, businessId, live }) =>
        [1, 2].includes((kinds as number[] | undefined)?.[0] ?? 0) &&
        (businessId !== undefined || live === false),
      at: REVIEW_AT,
      // Every kind, and counts of up to a thousand of each on the first page.
      buffersMax: 25_000,
    },
    'PayoutService.ListPayouts': {
      filters: {
        businessId: [SEEDED_BUSINESS],
        live: [true, false],
        // Common ones, rare ones, and open ones.
        statuses: [[4], [5, 11], [6, 7]],
        purpose: [3],
        from: [middle.from],
        to: [middle.to],
        transactionId: [`txn_01${'50'.padStart(24, '0')}`],
        accountNumber: ['0123456785'],
        batchId: ['batch-5'],
      },
      refused: ({ transactionId, accountNumber, batchId, ...others }) => {
        const named = [transactionId, accountNumber, batchId].filter((each) => each !== undefined)
        return (
          isOpenPeriod(others) ||
          named.length > 1 ||
          (named.length === 1 && Object.keys(others).length > 1)
        )
      },
      at: tokenAt('id', `payout where ${OF_BUSINESS}`, 'id desc'),
      // A page with a rare status reads a thousand payouts.
      buffersMax: 2_500,
    },
    'PayoutService.ListBatches': {
      always: { businessId: SEEDED_BUSINESS },
      at: tokenAt('id', `payout_batch where ${OF_BUSINESS}`, 'id desc'),
    },
    'PayoutService.ListBeneficiaries': {
      always: { businessId: SEEDED_BUSINESS },
      filters: { live: [true, false] },
      at: tokenAt(
        '(extract(epoch from last_used_at) * 1000)::bigint::text, bank_code, account_number',
        `payout_beneficiary where ${OF_BUSINESS}`,
        'last_used_at desc, bank_code desc, account_number desc',
      ),
    },
    'PayoutService.ListPauses': {
      filters: { businessId: [SEEDED_BUSINESS] },
      at: tokenAt(
        '(extract(epoch from paused_at) * 1000)::bigint::text, scope, target',
        'payout_pause',
        'paused_at desc, scope desc, target desc',
      ),
    },
    'PayoutService.ListPayoutDiscrepancies': {
      at: tokenAt('id', 'payout_discrepancy where resolved_at is null', 'id desc'),
    },
    'ReconciliationService.ListUnmatchedPayments': {
      filters: { bank: [1, 2, 4], accountNumber: ['0000000000'] },
      at: tokenAt('id', 'unmatched_payment where resolution is null', 'id desc'),
    },
    'ReconciliationService.ListPaymentConflicts': {
      at: tokenAt('id', 'payment_conflict where resolved_at is null', 'id desc'),
    },
    'NotificationService.ListHeldNotifications': {
      filters: { bank: [1, 2, 4] },
      at: tokenAt('id', "bank_notification where state = 'MANUAL_REVIEW'", 'id desc'),
    },
    'NotificationService.ListNotifications': {
      filters: {
        bank: [1, 4],
        sessionId: ['k7'],
        state: [2, 3],
        results: [[1, 6]],
        from: [timestampFromMs(0), timestampFromMs(nowMs)],
        to: [timestampFromMs(nowMs)],
      },
      refused: ({ bank, sessionId }) => bank === undefined && sessionId !== undefined,
      at: tokenAt('id', 'bank_notification', 'id desc'),
      buffersMax: 2_500,
    },
    'ReconciliationService.ListReconciliationRuns': { filters: { bank: [1, 4] } },
    'ReconciliationService.ListRecordedPayments': {
      always: period(nowMs, spanMs + DAY_MS, 0),
      filters: { bank: [1, 2], from: [middle.from], to: [middle.to] },
      refused: ({ bank }) => bank === undefined,
      at: tokenAt('id', 'transaction', 'id'),
      buffersMax: 4_000,
    },
    'SettlementService.ListSettlements': {
      filters: {
        businessId: [SEEDED_BUSINESS],
        live: [true, false],
        from: [timestampFromMs(0)],
        to: [timestampFromMs(nowMs)],
        settlementId: [SETTLEMENT],
      },
      at: tokenAt('id', 'settlement', 'id desc'),
    },
    'SettlementService.ListEntries': {
      always: { businessId: SEEDED_BUSINESS },
      filters: {
        live: [false],
        from: [timestampFromMs(nowMs - 3_600_000), timestampFromMs(nowMs)],
        to: [timestampFromMs(nowMs + 3_600_000)],
        settlementId: [SETTLEMENT],
      },
      refused: ({ settlementId, from, to, live }) =>
        settlementId !== undefined && [from, to, live].some((each) => each !== undefined),
      at: async (pool, part) => {
        const { after } = (await EVENTS_AT(pool, part, {})) as { after: bigint }
        return { pageToken: pageTokenOf([`${after}`, `${2n ** 40n}`, '0', '0', '0']) }
      },
      // A thousand events without money lie between two entries.
      buffersMax: 4_500,
    },
    'SettlementService.ListHolidays': {
      at: tokenAt('day::text', 'holiday', 'day'),
    },
    'ThirdPartyService.ListTransactions': {
      filters: {
        reference: [`R-${'1'.padStart(20, 'A')}`, `R-${'2'.padStart(20, 'A')}`],
        status: ['SUCCESS', 'FAILED', 'PENDING', 'REVERSED'],
        from: [new Date(nowMs - spanMs * 0.6).toISOString()],
        to: [new Date(nowMs - spanMs * 0.5).toISOString()],
        recordedFrom: [new Date(nowMs - spanMs).toISOString()],
        recordedTo: [new Date(nowMs + DAY_MS).toISOString()],
        sessionId: [sessionIdOf(1)],
      },
      refused: isRefused,
      at: inEitherOrder,
      buffersMax: RECORDED_BUFFERS_MAX,
    },
    'ThirdPartyService.ListSettlements': {
      at: tokenAt('id', 'settlement', 'id desc'),
    },
    'ThirdPartyService.ListWebhooks': {},
    'ThirdPartyService.ListDeliveries': deliveries(['PENDING', 'DELIVERED', 'FAILED']),
    'ThirdPartyService.ListEvents': {
      filters: { kinds: KINDS },
      at: EVENTS_AT,
      buffersMax: EVENTS_BUFFERS_MAX,
    },
    'TransactionService.ListTransactions': {
      filters: transactionFilters,
      refused: isRefusedOfAll,
      at: async (pool, part, request) =>
        request['businessId'] === undefined
          ? ALL_TRANSACTIONS_AT(pool, part, request)
          : inEitherOrder(pool, part, request),
      buffersMax: RECORDED_BUFFERS_MAX,
    },
    'TransactionService.SummarizeTransactions': {
      always: { live: true },
      filters: { ...transactionFilters, live: [false] },
      refused: (request) => isRefusedOfAll(request) || Object.keys(request).length > 3,
      buffersMax: SUMMED_BUFFERS_MAX,
    },
    'WebhookService.ListEndpoints': {
      filters: {
        businessId: [SEEDED_BUSINESS],
        live: [true, false],
        status: [1, 2],
        failing: [true, false],
      },
      at: tokenAt('id', 'webhook_endpoint', 'id desc'),
      buffersMax: 2_500,
    },
    'WebhookService.ListDeliveries': deliveries([1, 2, 3], {
      businessId: [SEEDED_BUSINESS],
      from: [timestampFromMs(0), timestampFromMs(nowMs)],
      to: [timestampFromMs(0), timestampFromMs(nowMs)],
      statuses: [[1, 3]],
      live: [true, false],
    }),
  }
}

/** Deliveries, by the endpoint, the business or the event. @param states as the list names them */
function deliveries(states: readonly unknown[], more: ListRow['filters'] = {}): ListRow {
  return {
    filters: {
      endpointId: [`ep_01${'1'.padStart(24, '0')}`],
      eventId: ['evt_none'],
      status: states,
      ...more,
    },
    refused: ({ endpointId, eventId, status, ...request }) => {
      const { businessId } = request
      if ([endpointId, eventId, businessId].every((each) => each === undefined)) return true
      if (status !== undefined && request['statuses'] !== undefined) return true
      // An event has few deliveries, and the filters of a time are two.
      if (eventId !== undefined && Object.keys(request).length > 0) return true
      return isOpenPeriod(request)
    },
    at: async (pool, part) => {
      const { rows } = await pool.query<{ last: string }>(
        'select max(position) as last from webhook_delivery',
      )
      const position = Math.floor(Number(rows[0]!.last) * (1 - part))
      return { pageToken: pageTokenOf([`${position}`, `ep_01${'1'.padStart(24, '0')}`]) }
    },
    // A page with a rare status passes over a thousand deliveries.
    buffersMax: 1_700,
  }
}

/** A period open at one end costs as much as one open at both or neither. */
function isOpenPeriod({ from, to }: Request): boolean {
  return (from === undefined) !== (to === undefined)
}

/**
 * One request for each combination of at most four filters: with each value where one or two filters are set, and with
 * the values in turn where more are.
 */
export function* requestsOf({ always = {}, filters = {}, refused }: ListRow): Generator<Request> {
  let requests: Request[] = [{}]
  for (const [field, values] of Object.entries(filters)) {
    requests = requests.flatMap((request) => [
      request,
      ...values.map((value) => ({ ...request, [field]: value })),
    ])
  }
  const accepted = requests
    .filter((request) => Object.keys(request).length <= FILTERS_MAX)
    .filter((request) => !refused?.({ ...always, ...request }))
  const combinations = Map.groupBy(accepted, (request) => Object.keys(request).join())
  for (const [turn, all] of [...combinations.values()].entries()) {
    const isLarge = Object.keys(all[0]!).length > 2
    for (const request of isLarge ? [all[turn % all.length]!] : all) yield { ...always, ...request }
  }
}
