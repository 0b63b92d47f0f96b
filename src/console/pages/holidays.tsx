import { useInfiniteQuery } from '@connectrpc/connect-query'
import type { Holiday } from '../../../gen/inflow/settlement/v1/settlement_pb.ts'
import { SettlementService } from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { Action } from '../ui/action.tsx'
import { TextField } from '../ui/form.tsx'
import { type Column, ListFrame, Table } from '../ui/list.tsx'
import { Section } from '../ui/page.tsx'
import { dayAt, dayName } from './lagos-calendar.ts'

const COLUMNS: readonly Column<Holiday>[] = [
  { key: 'day', title: 'Day', render: ({ day }) => dayName(day) },
  { key: 'name', title: 'Holiday', render: ({ name }) => name },
  { key: 'remove', title: '', isNumber: true, render: (holiday) => <Remove holiday={holiday} /> },
]

const PAGE_SIZE = 200

/** The days, other than weekends, on which nothing is settled. */
export function Holidays() {
  const pages = useInfiniteQuery(
    SettlementService.method.listHolidays,
    { pageSize: PAGE_SIZE, pageToken: '' },
    {
      pageParamKey: 'pageToken',
      getNextPageParam: (last) => last.nextPageToken || undefined,
    },
  )
  const rows = pages.data?.pages.flatMap(({ holidays }) => holidays) ?? []
  const today = dayAt(Date.now())
  const coming = rows.filter(({ day }) => day >= today)
  const past = rows.length - coming.length
  return (
    <Section title="Holidays" actions={<Add />}>
      <ListFrame
        pages={pages}
        isEmpty={coming.length === 0}
        empty={<p className="soft">No holiday is ahead: all days but weekends are working days.</p>}
      >
        <Table label="Holidays" columns={COLUMNS} rows={coming} keyOf={({ day }) => day} />
      </ListFrame>
      {past > 0 && <p className="faint">{past} more are over.</p>}
    </Section>
  )
}

function Add() {
  return (
    <Action
      method={SettlementService.method.addHoliday}
      label="Add a holiday"
      icon="plus"
      says="Payments that would be due on the day are due on the next working day. A day that is a holiday already is renamed."
      request={(_reason, form) => ({ day: form.text('day'), name: form.text('name') })}
      target={({ holiday }) => holiday?.day ?? ''}
    >
      <TextField
        name="day"
        label="Day"
        placeholder="2026-12-25"
        pattern="20[0-9]{2}-[0-9]{2}-[0-9]{2}"
        required
        hint="YYYY-MM-DD"
      />
      <TextField name="name" label="Name" maxLength={100} required />
    </Action>
  )
}

function Remove({ holiday: { day, name } }: { readonly holiday: Holiday }) {
  return (
    <Action
      method={SettlementService.method.removeHoliday}
      label="Remove"
      kind="quiet"
      says={`${name}, ${dayName(day)}, becomes a working day again.`}
      request={() => ({ day })}
      target={day}
    />
  )
}
