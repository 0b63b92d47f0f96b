import type { SettlementDay } from '../../../../gen/inflow/settlement/v1/settlement_pb.ts'
import { count, naira, shortNaira } from '../../format/money.ts'
import { dayName } from './lagos-calendar.ts'

/** A day of the calendar; it opens its settlements. */
export function DayCell({
  day,
  isToday,
  isChosen,
  onChoose,
}: {
  readonly day: SettlementDay
  readonly isToday: boolean
  readonly isChosen: boolean
  readonly onChoose: () => void
}) {
  const due = dueText(day)
  const classes = [
    'calendar-day',
    !day.workingDay && 'free',
    isToday && 'today',
    isChosen && 'chosen',
  ]
  return (
    <li>
      <button
        type="button"
        className={classes.filter(Boolean).join(' ')}
        aria-pressed={isChosen}
        aria-current={isToday ? 'date' : undefined}
        title={describe(day, due)}
        onClick={onChoose}
      >
        <span className="calendar-number">
          {Number(day.day.slice(8))}
          <span className="calendar-holiday">{day.holidayName}</span>
        </span>
        {day.settlementCount > 0n && (
          <span className="calendar-settled">
            {shortNaira(day.netMinor)} <span className="calendar-word">settled</span>
          </span>
        )}
        {due !== '' && (
          <span className="calendar-due">
            {day.dueGrossMinor > 0n ? shortNaira(day.dueGrossMinor) : count(day.dueBalanceCount)}{' '}
            <span className="calendar-word">
              {day.dueGrossMinor > 0n
                ? 'due'
                : day.dueBalanceCount === 1n
                  ? 'balance due'
                  : 'balances due'}
            </span>
          </span>
        )}
      </button>
    </li>
  )
}

function dueText({ dueBalanceCount, dueTransactionCount, dueGrossMinor }: SettlementDay): string {
  if (dueTransactionCount > 0n) {
    return `${plural(dueTransactionCount, 'payment')} of ${naira(dueGrossMinor)} due`
  }
  return dueBalanceCount > 0n ? `${plural(dueBalanceCount, 'balance')} due` : ''
}

/** The day in words: its description, and shown on hover. */
function describe(day: SettlementDay, due: string): string {
  const kind = day.holidayName || (day.workingDay ? '' : 'no working day')
  const settled =
    day.settlementCount > 0n &&
    `${plural(day.settlementCount, 'settlement')} of ${plural(day.transactionCount, 'payment')}, net ${naira(day.netMinor)}`
  return [dayName(day.day), kind, settled, due].filter(Boolean).join('; ')
}

function plural(number: bigint, word: string): string {
  return `${count(number)} ${word}${number === 1n ? '' : 's'}`
}
