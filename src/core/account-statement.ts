import { formatAmount } from './money.ts'

const COLUMNS =
  'booked_at,line,sequence,transaction_id,session_id,settlement_id,pending,available,fees,payout_id'

/** The names of the columns of an account statement. */
export const STATEMENT_HEADER: readonly string[] = COLUMNS.split(',')

const AMOUNTS = ['pendingMinor', 'availableMinor', 'feesMinor'] as const

/** A balance, or by how much an entry changes it. */
type Amounts = Readonly<Record<(typeof AMOUNTS)[number], bigint>>

type Texts = 'kind' | 'transactionId' | 'sessionId' | 'settlementId' | 'payoutId'

type Entry = Amounts & Readonly<Record<Texts, string>> & { readonly sequence: bigint }

/** The fields of an entry; its time is in RFC 3339. */
export function entryRecord(bookedMs: number | undefined, entry: Entry): string[] {
  const bookedAt = bookedMs === undefined ? '' : new Date(bookedMs).toISOString()
  const ids = [entry.transactionId, entry.sessionId, entry.settlementId]
  return [bookedAt, entry.kind, `${entry.sequence}`, ...ids, ...textsOf(entry), entry.payoutId]
}

/** The fields of a balance. @param line OPENING_BALANCE or CLOSING_BALANCE */
export function balanceRecord(line: string, balance: Amounts | undefined): string[] {
  return ['', line, '', '', '', '', ...textsOf(balance), '']
}

const textsOf = (amounts: Amounts | undefined) =>
  AMOUNTS.map((name) => formatAmount(amounts?.[name] ?? 0n))

interface StatementPage {
  readonly openingBalance?: Amounts | undefined
  readonly closingBalance?: Amounts | undefined
  readonly entries: readonly Amounts[]
}

/** Whether a page adds up, and begins with the closing balance of the previous page. */
export function addsUp(page: StatementPage, previous: Amounts | undefined): boolean {
  return AMOUNTS.every((name) => {
    const from = page.openingBalance?.[name] ?? 0n
    const sum = page.entries.reduce((total, entry) => total + entry[name], from)
    return sum === (page.closingBalance?.[name] ?? 0n) && (!previous || previous[name] === from)
  })
}
