import { once } from 'node:events'
import type { Timestamp } from '@bufbuild/protobuf/wkt'
import type { Command } from 'commander'
import {
  type Balance,
  BalanceSchema,
  EntrySchema,
} from '../../gen/inflow/settlement/v1/settlement_pb.ts'
import {
  type ListEntriesResponse,
  SettlementService,
} from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { addsUp, balanceRecord, entryRecord, STATEMENT_HEADER } from '../core/account-statement.ts'
import { fromTimestamp } from '../protobuf/values.ts'
import { time } from './options.ts'
import { EXIT, Failure, jsonText } from './output.ts'
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

/** Yields the pages of the period. Each must begin with the closing balance of the previous page. */
async function* listPages(
  service: Service,
  options: Omit<StatementOptions, 'format'>,
  json: boolean,
): AsyncGenerator<ListEntriesResponse> {
  const client = service.client(SettlementService)
  const businessId = service.business(options.business)
  // On a terminal, the printed entries themselves show the progress.
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
    if (!addsUp(page, previous)) {
      throw new Failure(EXIT.refused, 'the entries do not add up: run "inflow ledger verify"')
    }
    yield page
    entries += page.entries.length
    progress?.show('writing entries', entries)
    previous = page.closingBalance
  }
  progress?.end()
}

async function writeCsv(pages: AsyncIterable<ListEntriesResponse>): Promise<void> {
  let closing: Balance | undefined
  for await (const page of pages) {
    if (closing === undefined) {
      await write(csvOf([STATEMENT_HEADER, balanceRecord('OPENING_BALANCE', page.openingBalance)]))
    }
    closing = page.closingBalance
    const records = page.entries.map((entry) =>
      entryRecord(entry.bookedAt && fromTimestamp(entry.bookedAt), entry),
    )
    await write(csvOf(records))
  }
  await write(csvOf([balanceRecord('CLOSING_BALANCE', closing)]))
}

/** Ids, kinds and numbers need no quoting. */
const csvOf = (records: readonly (readonly string[])[]) =>
  records.map((fields) => `${fields.join(',')}\n`).join('')

/** Writes one document as a stream: {"openingBalance", "entries", "closingBalance"}. */
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
