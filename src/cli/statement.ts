import { once } from 'node:events'
import type { Timestamp } from '@bufbuild/protobuf/wkt'
import type { Command } from 'commander'
import {
  type Balance,
  BalanceSchema,
  type Entry,
  EntrySchema,
} from '../../gen/inflow/settlement/v1/settlement_pb.ts'
import {
  type ListEntriesResponse,
  SettlementService,
} from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { formatAmount } from '../core/money.ts'
import { fromTimestamp } from '../protobuf/values.ts'
import { EXIT, Failure } from './failure.ts'
import { time } from './options.ts'
import { jsonText } from './output.ts'
import { commandProgress } from './progress.ts'
import { BUSINESS } from './rpc-verb.ts'
import { pagesOf, type Service, serviceAction, toJsonForm } from './service-action.ts'
import { calling, describeNoun } from './verb.ts'

/** The maximum page size of ListEntries. */
const PAGE_SIZE = 1_000

interface StatementOptions {
  readonly business?: string
  readonly from?: Timestamp
  readonly to?: Timestamp
  readonly format: 'csv' | 'json'
  readonly test?: boolean
  readonly settlement?: string
}

const STATEMENT_HELP = `
  ${BUSINESS}
  --from <time>  entries booked at this time or later (default: from the first entry)
  --to <time>  entries booked before this time (default: up to the latest entry)
  --test  the statement of test mode (default: live mode)
  --settlement <id>  only what this settlement covers, see settle list
  --format <format>  output format
  Example: statement --from "2026-11-01 00:00:00" --to "2026-12-01 00:00:00" --format csv`

export function statement(noun: Command): void {
  const verb = calling(writeStatement, {
    from: { read: time },
    to: { read: time },
    settlement: { conflicts: ['from', 'to'] },
    format: { choices: ['csv', 'json'], default: 'csv' },
  })
  describeNoun(noun, verb, STATEMENT_HELP)
}

const writeStatement = serviceAction<StatementOptions>(async (service, { json, ...options }) => {
  const format = json ? 'json' : options.format
  const write = format === 'json' ? writeJson : writeCsv
  await write(listPages(service, options, format === 'json'))
})

/** The pages of the period. Each must open at the closing balance of the previous page. */
async function* listPages(
  service: Service,
  options: Omit<StatementOptions, 'format'>,
  json: boolean,
): AsyncGenerator<ListEntriesResponse> {
  const client = service.client(SettlementService)
  const businessId = service.business(options.business)
  // On a terminal the entries themselves show how far it has come.
  const progress = process.stdout.isTTY ? undefined : commandProgress(json)
  let previous: Balance | undefined
  let entries = 0
  const request = {
    businessId,
    test: options.test ?? false,
    settlementId: options.settlement ?? '',
    ...(options.from && { from: options.from }),
    ...(options.to && { to: options.to }),
    pageSize: PAGE_SIZE,
  }
  for await (const page of pagesOf((pageToken) => client.listEntries({ ...request, pageToken }))) {
    checkSums(page, previous)
    yield page
    entries += page.entries.length
    progress?.show('writing entries', entries)
    previous = page.closingBalance
  }
  progress?.end()
}

/** @throws Failure if a page does not add up or does not continue the previous page */
function checkSums(page: ListEntriesResponse, previous: Balance | undefined): void {
  const { openingBalance: opening, closingBalance: closing, entries } = page
  for (const name of ['pendingMinor', 'availableMinor', 'feesMinor'] as const) {
    const from = opening?.[name] ?? 0n
    const sum = entries.reduce((total, entry) => total + entry[name], from)
    if (sum !== (closing?.[name] ?? 0n) || (previous && previous[name] !== from)) {
      throw new Failure(EXIT.refused, 'the entries do not add up: run "inflow ledger verify"')
    }
  }
}

const HEADER =
  'booked_at,line,sequence,transaction_id,session_id,settlement_id,pending,available,fees,payout_id'

async function writeCsv(pages: AsyncIterable<ListEntriesResponse>): Promise<void> {
  let closing: Balance | undefined
  for await (const page of pages) {
    const lines = page.entries.map(toLine)
    if (closing === undefined)
      lines.unshift(HEADER, toBalanceLine('OPENING_BALANCE', page.openingBalance))
    closing = page.closingBalance
    if (lines.length > 0) await write(`${lines.join('\n')}\n`)
  }
  await write(`${toBalanceLine('CLOSING_BALANCE', closing)}\n`)
}

/** Times are RFC 3339. Ids, kinds and numbers need no CSV quoting. */
function toLine(entry: Entry): string {
  return [
    entry.bookedAt ? new Date(fromTimestamp(entry.bookedAt)).toISOString() : '',
    entry.kind,
    entry.sequence,
    entry.transactionId,
    entry.sessionId,
    entry.settlementId,
    formatAmount(entry.pendingMinor),
    formatAmount(entry.availableMinor),
    formatAmount(entry.feesMinor),
    entry.payoutId,
  ].join(',')
}

function toBalanceLine(name: string, balance: Balance | undefined): string {
  const amounts = [balance?.pendingMinor, balance?.availableMinor, balance?.feesMinor]
  const texts = amounts.map((minor) => formatAmount(minor ?? 0n))
  return ['', name, '', '', '', '', ...texts, ''].join(',')
}

/** One streamed document: {"openingBalance", "entries", "closingBalance"}. */
async function writeJson(pages: AsyncIterable<ListEntriesResponse>): Promise<void> {
  const toText = (balance: Balance | undefined) =>
    jsonText(balance ? toJsonForm(BalanceSchema, balance) : {})
  let closing: Balance | undefined
  let separator = ''
  for await (const page of pages) {
    if (closing === undefined) {
      await write(`{"openingBalance": ${toText(page.openingBalance)},\n"entries": [`)
    }
    for (const entry of page.entries) {
      await write(`${separator}\n${jsonText(toJsonForm(EntrySchema, entry))}`)
      separator = ','
    }
    closing = page.closingBalance
  }
  await write(`\n],\n"closingBalance": ${toText(closing)}}\n`)
}

/** Waits for a slow reader, so that memory holds at most one page. */
async function write(text: string): Promise<void> {
  if (!process.stdout.write(text)) await once(process.stdout, 'drain')
}
