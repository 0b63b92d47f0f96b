import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { type Timestamp, timestampFromMs } from '@bufbuild/protobuf/wkt'
import type { Command } from 'commander'
import {
  type OutgoingLineSchema,
  OutgoingState,
  type PayoutDiscrepancy,
  PayoutDiscrepancySchema,
} from '../../gen/inflow/payout/v1/payout_discrepancy_pb.ts'
import {
  PayoutService,
  type ReconcilePayoutsRequestSchema,
  ReconcilePayoutsResponseSchema,
} from '../../gen/inflow/payout/v1/payout_service_pb.ts'
import { type Bank, BankSchema } from '../../gen/inflow/type/v1/bank_pb.ts'
import { DAY_MS } from '../core/durations.ts'
import { parseAmount } from '../core/money.ts'
import { normalizeHeader } from '../core/statement-columns.ts'
import { columnsOf } from './columns.ts'
import { YES } from './confirm.ts'
import { enumRule, lagosTime } from './options.ts'
import { counted, EXIT, Failure, table } from './output.ts'
import { readTable } from './read-csv.ts'
import { PAGE, rpc } from './rpc-verb.ts'
import { printResponse, type Service, serviceAction } from './service-action.ts'
import { addVerbs, calling } from './verb.ts'

const HELP = `
  reconcile: compare the outgoing transfers of a bank with the payouts; each difference is stored once
  --bank <code>!  the bank
  --from <time>  from this time, in Africa/Lagos (default: a day ago; with --file: payouts that the file lacks are not looked for)
  --to <time>  before this time, in Africa/Lagos (default: now)
  --file <path>  a statement of the bank: CSV with a line of headers (default: the bank's own list)
  --test  in test mode (default: live mode)
  Example: payout reconcile --bank PROVIDUS --file statement.csv --from 2026-11-01

  discrepancies: list unresolved differences between the transfers of banks and the payouts, newest first
  ${PAGE}
  Example: payout discrepancies

  resolve-discrepancy: end the manual review of a difference; no payout changes
  <discrepancy-id>  the difference, pdc_…
  --note <text>!  how and why it was resolved
  ${YES}
  Example: payout resolve-discrepancy pdc_… --note "the rent, paid at the portal of the bank"`

const FOUND = 'foundAt, kind, bank, bankReference, amountMinor, accountNumber, text=What, id'

/** Adds the verbs for differences between banks and payouts. */
export function addDiscrepancyVerbs(noun: Command): void {
  addVerbs(noun, HELP, {
    reconcile: calling(reconcile, {
      bank: enumRule(BankSchema),
      from: { read: lagosTime.parse },
      to: { read: lagosTime.parse },
    }),
    discrepancies: rpc(PayoutService.method.listPayoutDiscrepancies, { shows: FOUND }),
    'resolve-discrepancy': rpc(PayoutService.method.resolvePayoutDiscrepancy, {
      confirms: 'Its manual review ends, and no payout changes.',
      shows: `${FOUND}, sessionId, payoutId, businessId, resolvedAt, resolvedBy, note`,
    }),
  })
}

interface Options {
  readonly bank: Bank
  readonly from?: Timestamp
  readonly to?: Timestamp
  readonly file?: string
  readonly test?: boolean
}

type Line = MessageInitShape<typeof OutgoingLineSchema>

/** The most lines of a call. */
const LINES_MAX = 1_000

const reconcile = serviceAction<Options>(async (service, options) => {
  const { bank, file, test, to = timestampFromMs(Date.now()) } = options
  const request = { bank, live: test !== true }
  const from =
    options.from ?? (file === undefined ? timestampFromMs(Date.now() - DAY_MS) : undefined)
  const period = from && { from, to }
  const total = create(ReconcilePayoutsResponseSchema)
  // The whole file is read first, so that an error in its last line changes nothing.
  const lines = file === undefined ? [] : await readLines(file)
  const rest = lines.length % LINES_MAX || Math.min(lines.length, LINES_MAX)
  const first = lines.length - rest
  for (let at = 0; at < first; at += LINES_MAX) {
    await compare(service, { ...request, lines: lines.slice(at, at + LINES_MAX) }, total)
  }
  await compare(service, { ...request, ...period, lines: lines.slice(first) }, total)
  service.progress.end()
  printResponse(options, ReconcilePayoutsResponseSchema, total, () => textOf(total))
  if (total.found > 0) {
    throw new Failure(
      EXIT.refused,
      `${counted(total.found, 'new difference')}: see payout discrepancies`,
    )
  }
})

type Total = ReturnType<typeof create<typeof ReconcilePayoutsResponseSchema>>

/** Repeats a call until the whole period is compared, and adds up the results. */
async function compare(
  service: Service,
  request: MessageInitShape<typeof ReconcilePayoutsRequestSchema>,
  total: Total,
): Promise<void> {
  let pageToken = ''
  do {
    const page = await service.client(PayoutService).reconcilePayouts({ ...request, pageToken })
    total.lines += page.lines
    total.matched += page.matched
    total.asked += page.asked
    total.found += page.found
    total.discrepancies.push(...page.discrepancies)
    pageToken = page.nextPageToken
    service.progress.show('comparing', total.lines)
  } while (pageToken !== '')
}

const COLUMNS = columnsOf(PayoutDiscrepancySchema, FOUND)

function textOf({ lines, matched, asked, found, discrepancies }: Total): string {
  const counts = `${counted(lines, 'line')}, ${matched} matched, ${asked} asked about, ${counted(found, 'new difference')}`
  const shown: readonly PayoutDiscrepancy[] = discrepancies
  return shown.length === 0 ? counts : `${counts}\n\n${table(shown, COLUMNS.list)}`
}

/** The headers that banks use, in lower case and reduced to letters and digits. */
const HEADERS = {
  reference: ['reference', 'paymentreference', 'transactionreference', 'orderid', 'transref'],
  session: ['sessionid', 'session', 'nipsessionid', 'nibsssessionid'],
  amount: ['debit', 'debitamount', 'amount', 'transactionamount'],
  account: [
    'beneficiaryaccount',
    'beneficiaryaccountnumber',
    'creditaccountnumber',
    'accountnumber',
  ],
  status: ['status', 'transactionstatus', 'orderstatus'],
  direction: ['direction', 'drcr', 'debitcredit', 'type', 'transactiontype'],
  narration: ['narration', 'description', 'remarks', 'tranremarks'],
} as const

type LineColumn = keyof typeof HEADERS

const STATES: readonly (readonly [OutgoingState, RegExp])[] = [
  [OutgoingState.PAID, /^(|1|00|0|success|successful|completed?|paid|approved|settled)$/i],
  [OutgoingState.RETURNED, /^(reversed|reversal|refunded|returned)$/i],
  [OutgoingState.FAILED, /^(failed|failure|declined|rejected)$/i],
  [OutgoingState.PENDING, /^(pending|processing|initiated)$/i],
]

/** Reads the debits of a statement. @throws Failure naming the line and its error */
async function readLines(file: string): Promise<Line[]> {
  const positions = new Map<LineColumn, number>()
  const records = readTable(file, (headers) => {
    const names = headers.map(normalizeHeader)
    for (const column of Object.keys(HEADERS) as LineColumn[]) {
      const at = HEADERS[column].map((name) => names.indexOf(name)).find((index) => index >= 0)
      if (at !== undefined) positions.set(column, at)
    }
    if (!positions.has('amount')) {
      throw new Failure(EXIT.usage, `line 1: no header is one of ${HEADERS.amount.join(', ')}`)
    }
  })
  const lines: Line[] = []
  for await (const { line, fields, fault } of records) {
    if (fault !== undefined) throw new Failure(EXIT.usage, `line ${line}, ${fault}`)
    const text = (column: LineColumn) => fields[positions.get(column) ?? -1]?.trim() ?? ''
    // Skips credits. In a statement with separate debit and credit columns, a credit has no debit amount.
    if (/^(c|cr|credit|inwards?|deposit)$/i.test(text('direction')) || text('amount') === '')
      continue
    lines.push(toLine(line, text))
  }
  return lines
}

/** Matches our reference inside another text, because banks may embed it there. */
const OWN_REFERENCE = /(?<![0-9A-Z])[0-9A-Z]{25}(?![0-9A-Z])/

function toLine(line: number, text: (column: LineColumn) => string): Line {
  const refuse = (problem: string) => new Failure(EXIT.usage, `line ${line}, ${problem}`)
  const amountMinor = parseAmount(text('amount').replaceAll(',', ''))
  if (!amountMinor) throw refuse(`"${text('amount')}" is not an amount in naira`)
  const [state] = STATES.find(([, form]) => form.test(text('status'))) ?? []
  if (state === undefined) throw refuse(`"${text('status')}" is not a known status`)
  const stated = `${text('reference')} ${text('narration')}`.toUpperCase()
  const reference = OWN_REFERENCE.exec(stated)?.[0] ?? text('reference').slice(0, 64)
  const sessionId = text('session')
  if (reference === '' && sessionId === '') throw refuse('it has neither a reference nor a session')
  return { reference, sessionId, amountMinor, accountNumber: text('account').slice(0, 40), state }
}
