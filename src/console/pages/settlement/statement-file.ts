import { toJson } from '@bufbuild/protobuf'
import type { Timestamp } from '@bufbuild/protobuf/wkt'
import { createClient, type Transport } from '@connectrpc/connect'
import {
  type Balance,
  BalanceSchema,
  type Entry,
  EntrySchema,
} from '../../../../gen/inflow/settlement/v1/settlement_pb.ts'
import {
  type ListEntriesResponse,
  SettlementService,
} from '../../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { formatAmount } from '../../../core/money.ts'
import { csvText } from '../../files/csv.ts'
import { msOf } from '../../format/time.ts'

/** Which statement. */
interface Period {
  readonly businessId: string
  readonly test: boolean
  readonly from: Timestamp
  readonly to: Timestamp
}

/** The maximum page size of ListEntries. */
const PAGE_SIZE = 1_000

export type StatementFormat = 'csv' | 'json'

/**
 * Reads a statement page by page.
 *
 * @param onProgress called with the number of entries read so far
 * @returns the parts of the file
 * @throws Error if the entries do not add up to the balances
 */
export async function readStatement(
  transport: Transport,
  period: Period,
  format: StatementFormat,
  onProgress: (entries: number) => void,
  signal: AbortSignal,
): Promise<string[]> {
  const client = createClient(SettlementService, transport)
  const parts: string[] = []
  let opening: Balance | undefined
  let closing: Balance | undefined
  let count = 0
  let pageToken = ''
  do {
    const page = await client.listEntries({ ...period, pageSize: PAGE_SIZE, pageToken }, { signal })
    checkSums(page, closing)
    opening ??= page.openingBalance
    closing = page.closingBalance
    if (page.entries.length > 0) parts.push(entriesText(page.entries, format, count === 0))
    count += page.entries.length
    onProgress(count)
    pageToken = page.nextPageToken
  } while (pageToken !== '')
  return format === 'csv' ? framedCsv(parts, opening, closing) : framedJson(parts, opening, closing)
}

/** Each page must add up, and open at the closing balance of the previous one. */
function checkSums(page: ListEntriesResponse, previous: Balance | undefined): void {
  const { openingBalance: opening, closingBalance: closing, entries } = page
  for (const name of ['pendingMinor', 'availableMinor', 'feesMinor'] as const) {
    const from = opening?.[name] ?? 0n
    const sum = entries.reduce((total, entry) => total + entry[name], from)
    if (sum !== (closing?.[name] ?? 0n) || (previous && previous[name] !== from)) {
      throw new Error('The entries do not add up: verify the ledger')
    }
  }
}

function entriesText(entries: readonly Entry[], format: StatementFormat, isFirst: boolean): string {
  if (format === 'csv') return csvText(entries.map(toRecord))
  const text = entries.map((entry) => JSON.stringify(toJson(EntrySchema, entry))).join(',\n')
  return isFirst ? text : `,\n${text}`
}

const HEADER = [
  'booked_at',
  'line',
  'sequence',
  'transaction_id',
  'session_id',
  'settlement_id',
  'pending',
  'available',
  'fees',
]

/** The columns of `inflow statement`. Times are RFC 3339. */
function toRecord(entry: Entry): string[] {
  const bookedMs = msOf(entry.bookedAt)
  return [
    bookedMs === undefined ? '' : new Date(bookedMs).toISOString(),
    entry.kind,
    `${entry.sequence}`,
    entry.transactionId,
    entry.sessionId,
    entry.settlementId,
    formatAmount(entry.pendingMinor),
    formatAmount(entry.availableMinor),
    formatAmount(entry.feesMinor),
  ]
}

function framedCsv(
  parts: readonly string[],
  opening: Balance | undefined,
  closing: Balance | undefined,
): string[] {
  const line = (name: string, balance: Balance | undefined) => {
    const amounts = [balance?.pendingMinor, balance?.availableMinor, balance?.feesMinor]
    return ['', name, '', '', '', '', ...amounts.map((minor) => formatAmount(minor ?? 0n))]
  }
  const head = csvText([HEADER, line('OPENING_BALANCE', opening)])
  return [head, ...parts, csvText([line('CLOSING_BALANCE', closing)])]
}

function framedJson(
  parts: readonly string[],
  opening: Balance | undefined,
  closing: Balance | undefined,
): string[] {
  const text = (balance: Balance | undefined) =>
    JSON.stringify(balance ? toJson(BalanceSchema, balance) : {})
  return [
    `{"openingBalance": ${text(opening)},\n"entries": [\n`,
    ...parts,
    `\n],\n"closingBalance": ${text(closing)}}\n`,
  ]
}
