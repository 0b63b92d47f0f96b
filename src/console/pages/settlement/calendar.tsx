import { useQuery } from '@connectrpc/connect-query'
import type { SettlementDay } from '../../../../gen/inflow/settlement/v1/settlement_pb.ts'
import { SettlementService } from '../../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { useViewScope } from '../../session/view-scope.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Failure } from '../../ui/lists/failure.tsx'
import { Waiting } from '../../ui/lists/waiting.tsx'
import { Section } from '../../ui/page.tsx'
import { Time } from '../../ui/values.tsx'
import { DayCell } from './day-cell.tsx'
import { blanksBefore, dayAt, monthName, shiftMonth } from './lagos-calendar.ts'

const WEEKDAYS = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun']

interface CalendarProps {
  /** YYYY-MM */
  readonly month: string
  readonly onMonth: (month: string) => void
  /** The chosen day; empty: none. */
  readonly day: string
  readonly onDay: (day: string) => void
}

/** A month in Lagos: working days, holidays, what falls due, and what was settled. */
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
      {read.error && <Failure error={read.error} onRetry={() => void read.refetch()} />}
      {read.isPending && <Waiting rows={10} />}
      {days && <Month days={days} day={day} onDay={onDay} />}
      {settlementsFrom && (
        <p className="faint">
          Settlements since <Time at={settlementsFrom} /> are counted: there are more in this month.
        </p>
      )}
      {dueIncomplete && (
        <p className="faint">More is unsettled than was read, so more falls due than is shown.</p>
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
