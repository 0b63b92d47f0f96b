import { useQuery } from '@connectrpc/connect-query'
import { useState } from 'react'
import {
  HolidaySchema,
  Schedule,
  ScheduleSchema,
  type Terms,
} from '../../../gen/inflow/settlement/v1/settlement_pb.ts'
import {
  SettlementService,
  UpdateSettlementTermsRequestSchema,
} from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { enumName } from '../format/enums.ts'
import { naira } from '../format/money.ts'
import { Action } from '../ui/action.tsx'
import { columnsOf } from '../ui/columns.tsx'
import { Fields } from '../ui/form.tsx'
import { List, usePagedList } from '../ui/list.tsx'
import { type Fact, Facts, Loaded, Section } from '../ui/page.tsx'
import { dayAt, dayName } from './lagos-calendar.ts'

const METHODS = SettlementService.method

/** The settlement schedule and the fees of a business. */
export function SettlementTerms({ businessId }: { readonly businessId: string }) {
  const read = useQuery(METHODS.getSettlementTerms, { businessId })
  const { terms } = read.data ?? {}
  return (
    <Section title="Terms" actions={terms && <Edit businessId={businessId} terms={terms} />}>
      <Loaded read={read} rows={3}>
        {() => terms && <Facts facts={termsFacts(terms)} />}
      </Loaded>
    </Section>
  )
}

export function termsFacts(terms: Terms): readonly Fact[] {
  return [
    ['Payments are due', dueText(terms)],
    ['Fee', feeText(terms)],
    ['At most', terms.feeCapMinor > 0n && naira(terms.feeCapMinor)],
  ]
}

function dueText({ schedule, workingDays, cutOff }: Terms): string {
  const time = cutOff || '00:00'
  if (schedule === Schedule.INSTANT) return 'within a minute'
  if (schedule === Schedule.DAILY) return `daily at ${time} in Lagos`
  return `at ${time} in Lagos, ${workingDays} working day${workingDays === 1 ? '' : 's'} later`
}

function feeText({ feeFlatMinor, feeBasisPoints }: Terms): string {
  const percent = feeBasisPoints > 0 && `${feeBasisPoints / 100} %`
  const parts = [feeFlatMinor > 0n && naira(feeFlatMinor), percent]
  return parts.filter(Boolean).join(' and ') || 'none'
}

interface TermsProps {
  readonly businessId: string
  readonly terms: Terms
}

function Edit({ businessId, terms }: TermsProps) {
  return (
    <Action
      method={METHODS.updateSettlementTerms}
      label="Change the terms"
      says="They apply in both modes, to all payments that are not settled yet. A settlement that runs keeps the fees it started with."
      request={{ businessId }}
      target={businessId}
    >
      <TermsFields terms={terms} />
    </Action>
  )
}

/** The fields of the terms. Fields that the schedule does not use are absent from the form and the request. */
function TermsFields({ terms }: Pick<TermsProps, 'terms'>) {
  const [schedule, setSchedule] = useState(enumName(ScheduleSchema, terms.schedule))
  return (
    <Fields
      of={UpdateSettlementTermsRequestSchema}
      values={{ terms: { ...terms, workingDays: terms.workingDays || 1 } }}
      show={[
        { 'terms.schedule': { label: 'Payments are due', onChoose: setSchedule } },
        {
          ...(schedule === 'WORKING_DAYS' && { 'terms.workingDays': WORKING_DAYS }),
          ...(schedule !== 'INSTANT' && { 'terms.cutOff': { placeholder: '00:00' } }),
          'terms.feeFlatMinor': '',
          'terms.feeBasisPoints': '',
          'terms.feeCapMinor': { hint: 'Empty: no maximum' },
        },
      ]}
    />
  )
}

const WORKING_DAYS = { label: 'Working days after the payment', min: 1, required: true }

const HOLIDAY_COLUMNS = columnsOf(HolidaySchema, [
  ['Day', ({ day }) => dayName(day)],
  ['Holiday', 'name'],
  [
    '',
    ({ day, name }) => (
      <Action
        method={METHODS.removeHoliday}
        label="Remove"
        kind="quiet"
        says={`${name}, ${dayName(day)}, becomes a working day again.`}
        request={{ day }}
        target={day}
      />
    ),
    'number',
  ],
])

/** The days, other than weekends, on which nothing is settled. */
export function Holidays() {
  const { rows, pages } = usePagedList(METHODS.listHolidays, 'holidays', { pageSize: 200 })
  const today = dayAt(Date.now())
  const coming = rows.filter(({ day }) => day >= today)
  const past = rows.length - coming.length
  return (
    <Section title="Holidays" actions={<AddHoliday />}>
      <List
        label="Holidays"
        columns={HOLIDAY_COLUMNS}
        of={{ rows: coming, pages }}
        keyOf={({ day }) => day}
        empty={<p className="soft">No holiday is ahead: all days but weekends are working days.</p>}
      />
      {past > 0 && <p className="faint">{past} more are over.</p>}
    </Section>
  )
}

function AddHoliday() {
  return (
    <Action
      method={METHODS.addHoliday}
      label="Add a holiday"
      icon="plus"
      says="Payments that would be due on the day are due on the next working day. An existing holiday is renamed."
      request={{}}
      fields={{ day: { placeholder: '2026-12-25', hint: 'YYYY-MM-DD' }, name: '' }}
      target={({ holiday }) => holiday?.day ?? ''}
    />
  )
}
