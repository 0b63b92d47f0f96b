import { once } from 'node:events'
import type { Timestamp } from '@bufbuild/protobuf/wkt'
import { timestampDate } from '@bufbuild/protobuf/wkt'
import { type Command, Option } from 'commander'
import {
  type Balance,
  BalanceSchema,
  type Entry,
  EntrySchema,
} from '../../../gen/inflow/settlement/v1/settlement_pb.ts'
import {
  type ListEntriesResponse,
  SettlementService,
} from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { formatAmount } from '../../core/money.ts'
import { EXIT, Failure } from '../failure.ts'
import { addBusinessOption, time } from '../options.ts'
import { toJsonForm } from '../print-response.ts'
import { type Service, serviceAction } from '../service-action.ts'
import { addOwnServiceOptions } from '../verb.ts'

/** The most that one call returns. */
const PAGE_SIZE = 1_000

interface StatementOptions {
  readonly business?: string
  readonly from?: Timestamp
  readonly to?: Timestamp
  readonly format: 'csv' | 'json'
  readonly test?: boolean
}

/** `inflow statement` */
export function statement(noun: Command): void {
  addBusinessOption(noun)
    .option('--from <time>', 'booked at this time or later (default: from the beginning)', time)
    .option('--to <time>', 'booked before this time (default: up to now)', time)
    .option('--test', 'of test mode')
    .addOption(
      new Option('--format <format>', 'how it is written').choices(['csv', 'json']).default('csv'),
    )
    .addHelpText(
      'after',
      '\nExample:\n  inflow statement --from "2026-11-01 00:00:00" --to "2026-12-01 00:00:00" --format csv',
    )
  addOwnServiceOptions(noun).action(
    serviceAction<StatementOptions>(async (service, { json, ...options }) => {
      const format = json ? 'json' : options.format
      const write = format === 'json' ? writeJson : writeCsv
      await write(pages(service, options))
    }),
  )
}

/** The pages of the period; each must go on where the one before ended. */
async function* pages(
  service: Service,
  options: Omit<StatementOptions, 'format'>,
): AsyncGenerator<ListEntriesResponse> {
  const client = service.client(SettlementService)
  const businessId = service.business(options.business)
  let pageToken = ''
  let reached: Balance | undefined
  do {
    const page = await client.listEntries({
      businessId,
      test: options.test ?? false,
      ...(options.from && { from: options.from }),
      ...(options.to && { to: options.to }),
      pageSize: PAGE_SIZE,
      pageToken,
    })
    checkSums(page, reached)
    yield page
    reached = page.closingBalance
    pageToken = page.nextPageToken
  } while (pageToken !== '')
}

/** A statement that does not add up is not one. */
function checkSums(page: ListEntriesResponse, reached: Balance | undefined): void {
  const { openingBalance: opening, closingBalance: closing, entries } = page
  for (const name of ['pendingMinor', 'availableMinor', 'feesMinor'] as const) {
    const from = opening?.[name] ?? 0n
    const sum = entries.reduce((total, entry) => total + entry[name], from)
    if (sum !== (closing?.[name] ?? 0n) || (reached && reached[name] !== from)) {
      throw new Failure(EXIT.refused, 'the entries do not add up: run "inflow ledger verify"')
    }
  }
}

const HEAD =
  'booked_at,line,sequence,transaction_id,session_id,settlement_id,pending,available,fees'

async function writeCsv(parts: AsyncIterable<ListEntriesResponse>): Promise<void> {
  let closing: Balance | undefined
  for await (const page of parts) {
    const lines = page.entries.map(toLine)
    if (closing === undefined)
      lines.unshift(HEAD, toBalanceLine('OPENING_BALANCE', page.openingBalance))
    closing = page.closingBalance
    if (lines.length > 0) await out(`${lines.join('\n')}\n`)
  }
  await out(`${toBalanceLine('CLOSING_BALANCE', closing)}\n`)
}

/** Times in RFC 3339; ids, kinds and numbers need no quotes. */
function toLine(entry: Entry): string {
  return [
    entry.bookedAt ? timestampDate(entry.bookedAt).toISOString() : '',
    entry.kind,
    entry.sequence,
    entry.transactionId,
    entry.sessionId,
    entry.settlementId,
    formatAmount(entry.pendingMinor),
    formatAmount(entry.availableMinor),
    formatAmount(entry.feesMinor),
  ].join(',')
}

function toBalanceLine(name: string, balance: Balance | undefined): string {
  const amounts = [balance?.pendingMinor, balance?.availableMinor, balance?.feesMinor]
  return ['', name, '', '', '', '', ...amounts.map((minor) => formatAmount(minor ?? 0n))].join(',')
}

/** One document, written as it is read: {"openingBalance", "entries", "closingBalance"}. */
async function writeJson(parts: AsyncIterable<ListEntriesResponse>): Promise<void> {
  const text = (balance: Balance | undefined) =>
    JSON.stringify(balance ? toJsonForm(BalanceSchema, balance) : {})
  let closing: Balance | undefined
  let separator = ''
  for await (const page of parts) {
    if (closing === undefined) {
      await out(`{"openingBalance": ${text(page.openingBalance)},\n"entries": [`)
    }
    for (const entry of page.entries) {
      await out(`${separator}\n${JSON.stringify(toJsonForm(EntrySchema, entry))}`)
      separator = ','
    }
    closing = page.closingBalance
  }
  await out(`\n],\n"closingBalance": ${text(closing)}}\n`)
}

/** Waits for a slow reader, so that no more than a page is held. */
async function out(text: string): Promise<void> {
  if (!process.stdout.write(text)) await once(process.stdout, 'drain')
}
