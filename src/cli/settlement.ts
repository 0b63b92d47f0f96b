import { create } from '@bufbuild/protobuf'
import { timestampNow } from '@bufbuild/protobuf/wkt'
import { type Command, InvalidArgumentError } from 'commander'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import {
  Schedule,
  type Settlement,
  SettlementDaySchema,
  SettlementSchema,
  SettlementStatus,
  type Terms,
  TermsSchema,
} from '../../gen/inflow/settlement/v1/settlement_pb.ts'
import {
  GetSettlementTermsResponseSchema,
  SettlementService,
  type SettleRequest,
  type SettleResponse,
  UpdateSettlementTermsResponseSchema,
  VerifyLedgerResponseSchema,
} from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { forEachConcurrently } from '../core/concurrency.ts'
import { formatAmount } from '../core/money.ts'
import { columnsOf } from './columns.ts'
import { YES } from './confirm.ts'
import { amount, lagosTime, localTime, numberFrom } from './options.ts'
import { counted, EXIT, Failure, fields, jsonText, note, print, table, visible } from './output.ts'
import type { Progress } from './progress.ts'
import { BUSINESS, PAGE, rpc } from './rpc-verb.ts'
import { pagesOf, printResponse, type Service, serviceAction } from './service-action.ts'
import { addVerbs, calling, describeNoun } from './verb.ts'

/** A table of settlements. Splits, and reasons why settlements are not paid out, are columns only if some have them. */
function settlementTable(settlements: readonly Settlement[]): string {
  const hasSplits = settlements.some(({ splitsMinor }) => splitsMinor !== 0n)
  const isHeldUp = settlements.some(({ payout }) => payout !== undefined && payout.detail !== '')
  const columns = columnsOf(
    SettlementSchema,
    `startedAt, businessId, live, status, transactionCount=Count, grossMinor, feesMinor,
    ${hasSplits ? 'splitsMinor?,' : ''} netMinor, cutOffAt=Recorded before, id
    ${isHeldUp ? ', payout.nextAt=Paid out again, payout.detail=Not paid out' : ''}`,
  )
  return table(settlements, columns.list)
}

const SETTLE_HELP = `
  run: settle the payments that are due, of one business or of all
  --business <id>  settle only this business (default: all that are due)
  --request-id <id>  your idempotency key: a repeat resumes or shows the same run
  --force  settle all received payments, regardless of the schedule
  --test  settle in test mode (default: live mode)
  ${YES}
  Example: settle run --business biz_… --request-id november-20

  preview: show the totals that settling a business now would produce
  ${BUSINESS}
  --force  include all received payments, regardless of the schedule
  --test  preview test mode (default: live mode)
  Example: settle preview

  list: list settlements, newest first
  --business <id>  list only this business (default: all)
  --from <time>  started at this time or later
  --to <time>  started before this time
  --test  list only test mode (default: both modes)
  ${PAGE}
  Example: settle list --limit 20

  calendar: show a month by the day in Lagos: working days, what was settled, what falls due
  --business <id>  only of this business (default: all)
  --month <month>  YYYY-MM (default: the present one)
  --test  of test mode (default: live mode)
  Example: settle calendar --month 2026-11

  terms: show the schedule and fees of a business, or replace them with --schedule
  ${BUSINESS}
  --schedule <schedule>  when payments are due: instant, daily, working-days
  --days <count>  working days after the payment, 1 to 30; only for working-days (default: 1)
  --cut-off <time>  time of day in Lagos as HH:MM (default: 00:00)
  --fee-flat <naira>  flat fee per payment (default: none)
  --fee-percent <percent>  percentage of each payment, such as 1.5 (default: none)
  --fee-cap <naira>  maximum fee per payment (default: none)
  Example: settle terms --schedule working-days --days 1 --cut-off 09:00 --fee-percent 1.5`

export function settle(noun: Command): void {
  addVerbs(noun, SETTLE_HELP, {
    run: rpc(SettlementService.method.settle, {
      confirms: (request, service) => ({
        word: 'settle',
        question: () => previewText(service, request),
      }),
      completes: (response, service, request) => untilSettled(response, service, request),
      shows: ({ settlements }) => settlementTable(settlements),
    }),
    preview: rpc(SettlementService.method.previewSettlement, {
      shows: `transactionCount=Transactions, grossMinor, feesMinor, splitsMinor?, netMinor,
        cutOffAt=Recorded before, nextSettlementAt=Next settlement`,
    }),
    list: rpc(SettlementService.method.listSettlements, {
      shows: ({ settlements }) => settlementTable(settlements),
    }),
    calendar: rpc(SettlementService.method.getSettlementCalendar, {
      flags: { month: { read: readMonth } },
      request: ({ month }: { month?: string }) => ({
        month: month ?? lagosTime.format(timestampNow()).slice(0, 'YYYY-MM'.length),
      }),
      shows: columnsOf(
        SettlementDaySchema,
        `day, Working day, settlementCount?=Settlements, transactionCount?=Transactions, grossMinor?,
          netMinor?, dueBalanceCount?=Balances due, dueTransactionCount?=Due, dueGrossMinor?`,
        {
          'Working day': ({ workingDay, holidayName }) =>
            workingDay ? 'yes' : holidayName || 'weekend',
        },
      ),
      notes: ({ settlementsFrom, dueIncomplete }) => [
        ...(settlementsFrom
          ? [`Settlements count since ${localTime.format(settlementsFrom)}.`]
          : []),
        ...(dueIncomplete ? ['More payments fall due than are shown.'] : []),
      ],
    }),
    terms: calling(showTerms, {
      schedule: { read: readSchedule },
      days: { read: numberFrom(1, 30) },
      feeFlat: { read: amount },
      feePercent: { read: readBasisPoints },
      feeCap: { read: amount },
    }),
  })
}

function readMonth(text: string): string {
  if (/^20\d\d-(0[1-9]|1[0-2])$/.test(text)) return text
  throw new InvalidArgumentError('Must be like 2026-11.')
}

/** Repeats a call with its request id until everything is settled, because each call runs for a bounded time. */
async function untilSettled(
  first: SettleResponse,
  service: Service,
  request: SettleRequest,
): Promise<SettleResponse> {
  const client = service.client(SettlementService)
  let response = first
  while (!response.completed) {
    showRunning(service.progress, response.settlements)
    response = await client.settle({ ...request, requestId: response.requestId })
  }
  service.progress.end()
  return response
}

/** The most businesses whose totals are previewed before all businesses are settled. */
const PREVIEWS_MAX = 1_000

/** Describes what settling would do, with the totals of the businesses. */
async function previewText(service: Service, request: SettleRequest): Promise<string> {
  const { businessId, force, test } = request
  const { ids, more } =
    businessId === '' ? await listBusinessIds(service) : { ids: [businessId], more: false }
  const client = service.client(SettlementService)
  const total = { businesses: 0, payments: 0n, gross: 0n, fees: 0n, splits: 0n, net: 0n }
  await forEachConcurrently(ids, 8, async (id) => {
    const preview = await client.previewSettlement({ businessId: id, force, test })
    if (preview.transactionCount === 0n) return
    total.businesses += 1
    total.payments += preview.transactionCount
    total.gross += preview.grossMinor
    total.fees += preview.feesMinor
    total.splits += preview.splitsMinor
    total.net += preview.netMinor
  })
  const mode = test ? 'test' : 'live'
  const which = force ? 'all received payments, including those that are not due' : 'due payments'
  return [
    `Settles ${which}, in ${mode} mode: ${total.payments} payments of ${total.businesses} businesses${more ? `, of the first ${ids.length} that were looked at` : ''}.`,
    `Gross ${formatAmount(total.gross)}, fees ${formatAmount(total.fees)}, splits ${formatAmount(total.splits)}, net ${formatAmount(total.net)} NGN.`,
  ].join('\n')
}

async function listBusinessIds(service: Service) {
  const client = service.client(BusinessService)
  const ids: string[] = []
  const pages = pagesOf((pageToken) => client.listBusinesses({ pageSize: 200, pageToken }))
  for await (const { businesses, nextPageToken } of pages) {
    ids.push(...businesses.map(({ id }) => id))
    if (ids.length >= PREVIEWS_MAX) return { ids, more: nextPageToken !== '' }
  }
  return { ids, more: false }
}

/** Shows the progress of a running settlement; the number of settlements that follow is unknown. */
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

const SCHEDULES: Readonly<Record<string, Schedule>> = {
  instant: Schedule.INSTANT,
  daily: Schedule.DAILY,
  'working-days': Schedule.WORKING_DAYS,
}

const TERMS = columnsOf(
  TermsSchema,
  'Schedule, workingDays?, cutOff=Cut-off in Lagos, feeFlatMinor=Fee, Fee percent, feeCapMinor?=Maximum fee',
  {
    Schedule: ({ schedule }) =>
      Object.keys(SCHEDULES).find((name) => SCHEDULES[name] === schedule) ?? '',
    'Fee percent': ({ feeBasisPoints }) => (feeBasisPoints / 100).toFixed(2),
  },
)

function readSchedule(text: string): Schedule {
  const schedule = SCHEDULES[text]
  if (schedule) return schedule
  throw new InvalidArgumentError(`Must be one of ${Object.keys(SCHEDULES).join(', ')}.`)
}

function readBasisPoints(text: string): number {
  const [, whole, part = ''] = /^(\d{1,3})(?:\.(\d{1,2}))?$/.exec(text) ?? []
  const points = whole === undefined ? -1 : Number(whole) * 100 + Number(part.padEnd(2, '0'))
  if (points >= 0 && points <= 10_000) return points
  throw new InvalidArgumentError('Must be a percentage from 0 to 100 with at most two decimals.')
}

interface TermsOptions {
  readonly business?: string
  readonly schedule?: Schedule
  readonly days?: number
  readonly cutOff?: string
  readonly feeFlat?: bigint
  readonly feePercent?: number
  readonly feeCap?: bigint
}

/** Shows the terms; with a schedule, replaces them first. */
const showTerms = serviceAction<TermsOptions>(async (service, options) => {
  const businessId = service.business(options.business)
  const client = service.client(SettlementService)
  const { schedule, days, cutOff = '', feeFlat, feePercent, feeCap } = options
  const show = (terms: Terms | undefined) => fields(terms, TERMS.list)
  if (schedule === undefined) {
    if ([days, options.cutOff, feeFlat, feePercent, feeCap].some((each) => each !== undefined)) {
      throw new Failure(EXIT.usage, 'terms are replaced as a whole: --schedule is required')
    }
    const response = await client.getSettlementTerms({ businessId })
    printResponse(options, GetSettlementTermsResponseSchema, response, () => show(response.terms))
    return
  }
  const response = await client.updateSettlementTerms({
    businessId,
    terms: {
      schedule,
      workingDays: days ?? (schedule === Schedule.WORKING_DAYS ? 1 : 0),
      cutOff,
      feeFlatMinor: feeFlat ?? 0n,
      feeBasisPoints: feePercent ?? 0,
      feeCapMinor: feeCap ?? 0n,
    },
  })
  printResponse(options, UpdateSettlementTermsResponseSchema, response, () => show(response.terms))
})

const BALANCE_HELP = `
  ${BUSINESS}
  --test  the balance in test mode (default: live mode)
  Example: balance --business biz_…`

export function balance(noun: Command): void {
  const verb = rpc(SettlementService.method.getBalance, {
    shows: 'pendingMinor, availableMinor, reservedMinor, feesMinor, currency',
  })
  describeNoun(noun, verb, BALANCE_HELP)
}

const HOLIDAYS = 'day, name'

const HOLIDAY_HELP = `
  add: add a holiday, or rename an existing one
  <day>  YYYY-MM-DD
  --name <text>!  the name of the holiday
  Example: holiday add 2026-12-25 --name "Christmas Day"

  remove: remove a holiday: the day becomes a working day again
  <day>  YYYY-MM-DD
  Example: holiday remove 2026-12-25

  list: list holidays in date order
  ${PAGE}
  Example: holiday list`

export function holiday(noun: Command): void {
  addVerbs(noun, HOLIDAY_HELP, {
    add: rpc(SettlementService.method.addHoliday, { shows: HOLIDAYS }),
    remove: rpc(SettlementService.method.removeHoliday, {
      silent: true,
      notes: (_response, { day }) => `Removed ${day}.`,
    }),
    list: rpc(SettlementService.method.listHolidays, { shows: HOLIDAYS }),
  })
}

const LEDGER_HELP = `
  verify: recompute the ledger, business by business, and report every discrepancy; prints a cursor, from which a later run continues
  --from <cursor>  continue an interrupted run, or verify only what was written since a completed run
  Example: ledger verify`

export function ledger(noun: Command): void {
  addVerbs(noun, LEDGER_HELP, { verify: calling(verifyLedger) })
}

/** Verifies the ledger. The exit code is 1 if there is a discrepancy. */
const verifyLedger = serviceAction<{ from?: string }>(async (service, options) => {
  const { progress } = service
  let result = create(VerifyLedgerResponseSchema, { cursor: options.from ?? '' })
  const stream = service
    .client(SettlementService)
    .verifyLedger({ from: options.from ?? '' }, { timeoutMs: 0 })
  try {
    for await (const part of stream) {
      result = part
      if (part.discrepancies.length > 0) progress.end()
      for (const { subject, problem } of part.discrepancies) {
        print(options.json ? jsonText({ subject, problem }) : `${subject}: ${visible(problem)}`)
      }
      const [done, total] = [part.transactions, part.estimatedTransactions].map(Number)
      progress.show('verifying transactions', done ?? 0, total)
    }
  } catch (error) {
    progress.end()
    if (result.cursor !== '') note(`Continue with --from ${result.cursor}`)
    throw error
  }
  progress.end()
  const { transactions, postings, discrepancyCount, completed, cursor } = result
  const scope = `${counted(transactions, 'transaction')} with ${counted(postings, 'posting')}`
  if (!completed) throw new Failure(EXIT.refused, `the verification ended early, after ${scope}`)
  if (discrepancyCount > 0n) {
    throw new Failure(EXIT.refused, `${discrepancyCount} discrepancies in ${scope}`)
  }
  if (options.json) {
    print(jsonText({ transactions: `${transactions}`, postings: `${postings}`, cursor }))
    return
  }
  print(`The ledger is consistent: ${scope}`)
  note(`To verify only what is written from now on: --from ${cursor}`)
})
