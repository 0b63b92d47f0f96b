import { useQuery } from '@connectrpc/connect-query'
import type { SettlementDay } from '../../../gen/inflow/settlement/v1/settlement_pb.ts'
import { SettlementService } from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { count, naira, shortNaira } from '../format/money.ts'
import { useViewScope } from '../session/view-scope.tsx'
import { Button } from '../ui/button.tsx'
import { Loaded, Section } from '../ui/page.tsx'
import { Time } from '../ui/values.tsx'
import { blanksBefore, dayAt, dayName, monthName, shiftMonth } from './lagos-calendar.ts'

const WEEKDAYS = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun']

interface CalendarProps {
  /** YYYY-MM */
  readonly month: string
  readonly onMonth: (month: string) => void
  /** The chosen day; empty: none. */
  readonly day: string
  readonly onDay: (day: string) => void
}

/** A month in Lagos: working days, holidays, due payments, and settlements. */
export function Calendar({ month, onMonth, day, onDay }: CalendarProps) {
  const { live, businessId } = useViewScope()
  const read = useQuery(SettlementService.method.getSettlementCalendar, {
    month,
    businessId,
    test: !live,
  })
  const { days, settlementsFrom, dueIncomplete } = read.data ?? {}
  return (
    <Section title={monthName(month)} actions={<MonthButtons month={month} onMonth={onMonth} />}>
      <Loaded read={read} rows={10}>
        {() => days && <Month days={days} day={day} onDay={onDay} />}
      </Loaded>
      {settlementsFrom && (
        <p className="faint">
          Settlements since <Time at={settlementsFrom} /> are counted: there are more in this month.
        </p>
      )}
      {dueIncomplete && (
        <p className="faint">
          Not all unsettled payments were read, so more payments fall due than are shown.
        </p>
      )}
    </Section>
  )
}

function MonthButtons({ month, onMonth }: Pick<CalendarProps, 'month' | 'onMonth'>) {
  const present = dayAt(Date.now()).slice(0, 7)
  return (
    <>
      <Button aria-label="The month before" onClick={() => onMonth(shiftMonth(month, -1))}>
        ‹
      </Button>
      <Button onClick={() => onMonth(present)} disabled={month === present}>
        This month
      </Button>
      <Button aria-label="The month after" onClick={() => onMonth(shiftMonth(month, 1))}>
        ›
      </Button>
    </>
  )
}

function Month({
  days,
  day,
  onDay,
}: Pick<CalendarProps, 'day' | 'onDay'> & { readonly days: readonly SettlementDay[] }) {
  const month = days[0]?.day.slice(0, 7) ?? ''
  const today = dayAt(Date.now())
  return (
    <ol className="calendar">
      {WEEKDAYS.map((name) => (
        <li key={name} className="calendar-weekday" aria-hidden="true">
          {name}
        </li>
      ))}
      {WEEKDAYS.slice(0, blanksBefore(month)).map((name) => (
        <li key={`before ${name}`} aria-hidden="true" />
      ))}
      {days.map((each) => (
        <DayCell
          key={each.day}
          day={each}
          isToday={each.day === today}
          isChosen={each.day === day}
          onChoose={() => onDay(each.day === day ? '' : each.day)}
        />
      ))}
    </ol>
  )
}

interface DayCellProps {
  readonly day: SettlementDay
  readonly isToday: boolean
  readonly isChosen: boolean
  readonly onChoose: () => void
}

/** A day of the calendar, which opens the settlements of the day. */
function DayCell({ day, isToday, isChosen, onChoose }: DayCellProps) {
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
        title={describeDay(day, due)}
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

/** The day in words, for screen readers and on hover. */
function describeDay(day: SettlementDay, due: string): string {
  const kind = day.holidayName || (day.workingDay ? '' : 'no working day')
  const settled =
    day.settlementCount > 0n &&
    `${plural(day.settlementCount, 'settlement')} of ${plural(day.transactionCount, 'payment')}, net ${naira(day.netMinor)}`
  return [dayName(day.day), kind, settled, due].filter(Boolean).join('; ')
}

function plural(number: bigint, word: string): string {
  return `${count(number)} ${word}${number === 1n ? '' : 's'}`
}
