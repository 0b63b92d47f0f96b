import { type Command, InvalidArgumentError } from 'commander'
import type { SettlementDay } from '../../../gen/inflow/settlement/v1/settlement_pb.ts'
import {
  GetSettlementCalendarResponseSchema,
  SettlementService,
} from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { formatAmount } from '../../core/money.ts'
import { localTime } from '../local-time.ts'
import { type Column, note, table } from '../output.ts'
import { printResponse } from '../print-response.ts'
import { serviceAction } from '../service-action.ts'
import { addVerb } from '../verb.ts'

const count = (number: bigint) => (number === 0n ? '' : `${number}`)
const sum = (minor: bigint) => (minor === 0n ? '' : formatAmount(minor))

const COLUMNS: readonly Column<SettlementDay>[] = [
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
export function addCalendar(noun: Command): void {
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
    table(response.days, COLUMNS),
  )
  const { settlementsFrom, dueIncomplete } = response
  if (settlementsFrom) note(`Settlements count since ${localTime.format(settlementsFrom)}.`)
  if (dueIncomplete) note('More falls due than is shown.')
})

function month(text: string): string {
  if (/^20\d\d-(0[1-9]|1[0-2])$/.test(text)) return text
  throw new InvalidArgumentError('Must be like 2026-11.')
}
