import type { Timestamp } from '@bufbuild/protobuf/wkt'
import { type Command, InvalidArgumentError } from 'commander'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import {
  type Settlement,
  type SettlementDay,
  SettlementStatus,
} from '../../../gen/inflow/settlement/v1/settlement_pb.ts'
import {
  GetSettlementCalendarResponseSchema,
  ListSettlementsResponseSchema,
  type PreviewSettlementResponse,
  PreviewSettlementResponseSchema,
  SettlementService,
  SettleResponseSchema,
} from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { forEachConcurrently } from '../../core/for-each-concurrently.ts'
import { formatAmount } from '../../core/money.ts'
import { confirm, YES, type YesOption } from '../confirm.ts'
import { localTime } from '../local-time.ts'
import {
  addBusinessOption,
  addPageOptions,
  enumName,
  notePage,
  type PageOptions,
  time,
} from '../options.ts'
import { type Column, fields, note, table } from '../output.ts'
import { printResponse } from '../print-response.ts'
import { commandProgress, type Progress } from '../progress.ts'
import { type Service, serviceAction } from '../service-action.ts'
import { addServiceOptions, addVerb } from '../verb.ts'
import { TERMS_OPTIONS, terms } from './settlement-terms.ts'

const SETTLEMENT_COLUMNS: readonly Column<Settlement>[] = [
  { title: 'Started at', of: ({ startedAt }) => localTime.format(startedAt) },
  { title: 'Business', of: ({ businessId }) => businessId },
  { title: 'Mode', of: ({ live }) => (live ? 'live' : 'test') },
  { title: 'Status', of: ({ status }) => enumName(status, SettlementStatus) },
  { title: 'Count', right: true, of: ({ transactionCount }) => `${transactionCount}` },
  { title: 'Gross', right: true, of: ({ grossMinor }) => formatAmount(grossMinor) },
  { title: 'Fees', right: true, of: ({ feesMinor }) => formatAmount(feesMinor) },
  { title: 'Net', right: true, of: ({ netMinor }) => formatAmount(netMinor) },
  { title: 'Recorded before', of: ({ cutOffAt }) => localTime.format(cutOffAt) },
  { title: 'Id', of: ({ id }) => id },
]

/** The shares of other businesses; empty if there are none. */
function splitsText({ splitsMinor }: { readonly splitsMinor: bigint }): string {
  return splitsMinor === 0n ? '' : formatAmount(splitsMinor)
}

/** A table of settlements; it has the splits if some settlements have any. */
function settlementTable(settlements: readonly Settlement[]): string {
  if (settlements.every(({ splitsMinor }) => splitsMinor === 0n))
    return table(settlements, SETTLEMENT_COLUMNS)
  const at = SETTLEMENT_COLUMNS.findIndex(({ title }) => title === 'Net')
  const splits = { title: 'Splits', right: true, of: splitsText }
  return table(settlements, SETTLEMENT_COLUMNS.toSpliced(at, 0, splits))
}

const PREVIEW_COLUMNS: readonly Column<PreviewSettlementResponse>[] = [
  { title: 'Transactions', of: ({ transactionCount }) => `${transactionCount}` },
  { title: 'Gross', of: ({ grossMinor }) => formatAmount(grossMinor) },
  { title: 'Fees', of: ({ feesMinor }) => formatAmount(feesMinor) },
  { title: 'Splits', of: splitsText },
  { title: 'Net', of: ({ netMinor }) => formatAmount(netMinor) },
  { title: 'Recorded before', of: ({ cutOffAt }) => localTime.format(cutOffAt) },
  { title: 'Next settlement', of: ({ nextSettlementAt }) => localTime.format(nextSettlementAt) },
]

/** `inflow settle` */
export function settle(noun: Command): void {
  addVerb(noun, 'run', {
    summary: 'settle the payments that are due, of one business or of all',
    example: 'settle run --business biz_… --request-id november-20',
  })
    .option('--business <id>', 'settle only this business (default: all that are due)')
    .option('--request-id <id>', 'your idempotency key: a repeat resumes or shows the same run')
    .option('--force', 'settle all received payments, regardless of the schedule')
    .option('--test', 'settle in test mode (default: live mode)')
    .option(...YES)
    .action(run)
  addBusinessOption(
    addVerb(noun, 'preview', {
      summary: 'show the totals that settling a business now would produce',
      example: 'settle preview',
    }),
  )
    .option('--force', 'include all received payments, regardless of the schedule')
    .option('--test', 'preview test mode (default: live mode)')
    .action(preview)
  addPageOptions(
    addVerb(noun, 'list', {
      summary: 'list settlements, newest first',
      example: 'settle list --limit 20',
    })
      .option('--business <id>', 'list only this business (default: all)')
      .option('--from <time>', 'started at this time or later', time)
      .option('--to <time>', 'started before this time', time)
      .option('--test', 'list only test mode (default: both modes)'),
  ).action(list)
  addCalendar(noun)
  const termsVerb = addBusinessOption(
    addVerb(noun, 'terms', {
      summary: 'show the schedule and fees of a business, or replace them with --schedule',
      example: 'settle terms --schedule working-days --days 1 --cut-off 09:00 --fee-percent 1.5',
    }),
  )
  for (const option of TERMS_OPTIONS) termsVerb.addOption(option)
  termsVerb.action(terms)
  addServiceOptions(noun)
}

interface RunOptions extends YesOption {
  readonly business?: string
  readonly requestId?: string
  readonly force?: boolean
  readonly test?: boolean
}

/** A call runs for a bounded time: it is repeated with its request id until all is settled. */
const run = serviceAction<RunOptions>(async (service, options) => {
  const client = service.client(SettlementService)
  const { business: businessId = '', force = false, test = false } = options
  await confirm(options, {
    word: 'settle',
    question: () => previewText(service, { businessId, force, test }),
  })
  const progress = commandProgress(options.json)
  let requestId = options.requestId ?? ''
  for (;;) {
    const request = client.settle({ businessId, requestId, force, test })
    const response = await request.catch((error: unknown) => {
      progress.end()
      throw error
    })
    if (response.completed) {
      progress.end()
      printResponse(options, SettleResponseSchema, response, () =>
        settlementTable(response.settlements),
      )
      return
    }
    requestId = response.requestId
    showRunning(progress, response.settlements)
  }
})

interface Extent {
  /** Empty: all that are due. */
  readonly businessId: string
  readonly force: boolean
  readonly test: boolean
}

/** Of so many businesses the totals are computed before all are settled. */
const PREVIEWS_MAX = 1_000

/** What settling would do, with the totals of all businesses. */
async function previewText(service: Service, { businessId, ...extent }: Extent): Promise<string> {
  const { ids, more } =
    businessId === '' ? await listBusinessIds(service) : { ids: [businessId], more: false }
  const client = service.client(SettlementService)
  const total = { businesses: 0, payments: 0n, gross: 0n, fees: 0n, splits: 0n, net: 0n }
  await forEachConcurrently(ids, 8, async (id) => {
    const preview = await client.previewSettlement({ businessId: id, ...extent })
    if (preview.transactionCount === 0n) return
    total.businesses += 1
    total.payments += preview.transactionCount
    total.gross += preview.grossMinor
    total.fees += preview.feesMinor
    total.splits += preview.splitsMinor
    total.net += preview.netMinor
  })
  const mode = extent.test ? 'test' : 'live'
  const which = extent.force ? 'all payments received, also those that are not due' : 'what is due'
  return [
    `Settles ${which}, in ${mode} mode: ${total.payments} payments of ${total.businesses} businesses${more ? `, of the first ${ids.length} that were looked at` : ''}.`,
    `Gross ${formatAmount(total.gross)}, fees ${formatAmount(total.fees)}, splits ${formatAmount(total.splits)}, net ${formatAmount(total.net)} NGN.`,
  ].join('\n')
}

async function listBusinessIds(service: Service) {
  const client = service.client(BusinessService)
  const ids: string[] = []
  let pageToken = ''
  do {
    const page = await client.listBusinesses({ pageSize: 200, pageToken })
    ids.push(...page.businesses.map(({ id }) => id))
    pageToken = page.nextPageToken
  } while (pageToken !== '' && ids.length < PREVIEWS_MAX)
  return { ids, more: pageToken !== '' }
}

/** A running settlement states its share; how many follow it is unknown. */
function showRunning(progress: Progress, settlements: readonly Settlement[]): void {
  const running = settlements.find(({ status }) => status === SettlementStatus.RUNNING)
  if (running === undefined) {
    progress.show('settling businesses', settlements.length)
    return
  }
  const { businessId, transactionCount, percentDone } = running
  const done = Number(transactionCount)
  const total = percentDone === 0 ? 0 : Math.round((done * 100) / percentDone)
  progress.show(`settling ${businessId}`, done, total)
}

const preview = serviceAction<{ business?: string; force?: boolean; test?: boolean }>(
  async (service, options) => {
    const businessId = service.business(options.business)
    const response = await service.client(SettlementService).previewSettlement({
      businessId,
      force: options.force ?? false,
      test: options.test ?? false,
    })
    printResponse(options, PreviewSettlementResponseSchema, response, () =>
      fields(response, PREVIEW_COLUMNS),
    )
  },
)

interface ListOptions extends PageOptions {
  readonly business?: string
  readonly from?: Timestamp
  readonly to?: Timestamp
  readonly test?: boolean
}

const list = serviceAction<ListOptions>(async (service, options) => {
  const { from, to } = options
  const response = await service.client(SettlementService).listSettlements({
    businessId: options.business ?? '',
    ...(from && { from }),
    ...(to && { to }),
    pageSize: options.limit ?? 0,
    pageToken: options.pageToken ?? '',
    ...(options.test && { live: false }),
  })
  printResponse(options, ListSettlementsResponseSchema, response, () =>
    settlementTable(response.settlements),
  )
  notePage(response)
})

const count = (number: bigint) => (number === 0n ? '' : `${number}`)
const sum = (minor: bigint) => (minor === 0n ? '' : formatAmount(minor))

const CALENDAR_COLUMNS: readonly Column<SettlementDay>[] = [
  { title: 'Day', of: ({ day }) => day },
  {
    title: 'Working day',
    of: ({ workingDay, holidayName }) => (workingDay ? 'yes' : holidayName || 'weekend'),
  },
  { title: 'Settlements', right: true, of: ({ settlementCount }) => count(settlementCount) },
  { title: 'Transactions', right: true, of: ({ transactionCount }) => count(transactionCount) },
  { title: 'Gross', right: true, of: ({ grossMinor }) => sum(grossMinor) },
  { title: 'Net', right: true, of: ({ netMinor }) => sum(netMinor) },
  { title: 'Balances due', right: true, of: ({ dueBalanceCount }) => count(dueBalanceCount) },
  { title: 'Due', right: true, of: ({ dueTransactionCount }) => count(dueTransactionCount) },
  { title: 'Due gross', right: true, of: ({ dueGrossMinor }) => sum(dueGrossMinor) },
]

/** Adds `inflow settle calendar`. */
function addCalendar(noun: Command): void {
  addVerb(noun, 'calendar', {
    summary: 'show a month by the day in Lagos: working days, what was settled, what falls due',
    example: 'settle calendar --month 2026-11',
  })
    .option('--business <id>', 'only of this business (default: all)')
    .option('--month <month>', 'YYYY-MM (default: the present one)', month)
    .option('--test', 'of test mode (default: live mode)')
    .action(calendar)
}

interface CalendarOptions {
  readonly business?: string
  readonly month?: string
  readonly test?: boolean
}

/** Formats a time as `YYYY-MM` in Lagos. */
const LAGOS_MONTH = new Intl.DateTimeFormat('en-CA', {
  timeZone: 'Africa/Lagos',
  year: 'numeric',
  month: '2-digit',
})

const calendar = serviceAction<CalendarOptions>(async (service, options) => {
  const response = await service.client(SettlementService).getSettlementCalendar({
    businessId: options.business ?? '',
    month: options.month ?? LAGOS_MONTH.format(Date.now()),
    test: options.test ?? false,
  })
  printResponse(options, GetSettlementCalendarResponseSchema, response, () =>
    table(response.days, CALENDAR_COLUMNS),
  )
  const { settlementsFrom, dueIncomplete } = response
  if (settlementsFrom) note(`Settlements count since ${localTime.format(settlementsFrom)}.`)
  if (dueIncomplete) note('More falls due than is shown.')
})

function month(text: string): string {
  if (/^20\d\d-(0[1-9]|1[0-2])$/.test(text)) return text
  throw new InvalidArgumentError('Must be like 2026-11.')
}
