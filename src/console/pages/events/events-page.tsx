import { useInfiniteQuery, useQuery } from '@connectrpc/connect-query'
import { memo, type ReactNode, useCallback, useMemo, useRef, useState } from 'react'
import type { Event } from '../../../../gen/inflow/event/v1/event_pb.ts'
import { EventService } from '../../../../gen/inflow/event/v1/event_service_pb.ts'
import { WebhookService } from '../../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { count } from '../../format/money.ts'
import { useEvents, useLive } from '../../session/live.tsx'
import { useMay } from '../../session/session.tsx'
import { useUrlState, useViewScope } from '../../session/view-scope.ts'
import { Button } from '../../ui/controls/button.tsx'
import { CopyButton } from '../../ui/controls/copy-button.tsx'
import { ChoiceFilter, FilterBar } from '../../ui/controls/filters.tsx'
import { PageLink } from '../../ui/href.tsx'
import { Icon } from '../../ui/icons.tsx'
import { Empty } from '../../ui/lists/empty.tsx'
import { ListFrame } from '../../ui/lists/list.tsx'
import { Page } from '../../ui/page.tsx'
import { useReading } from '../../ui/reading.ts'
import { Time } from '../../ui/values.tsx'
import { EventJson, tailCommand } from './event-json.tsx'
import { arriveEvents, type EventRows, NO_EVENTS, releaseEvents, subjectOf } from './event-rows.ts'
import '../../styles/events.css'

const PAGE_SIZE = 50

/** The event log as it grows, newest first; of one business also what was before. */
export function EventsPage() {
  const { live, businessId } = useViewScope()
  const [kind] = useUrlState('kind')
  return (
    <Page title="Events" isWide actions={<PauseButton />}>
      <FilterBar>
        <KindFilter />
        <CopyButton
          text={tailCommand({ live, businessId, kind })}
          what="a command that follows these events"
          label="Copy as inflow command"
        />
      </FilterBar>
      <Tail key={`${live} ${businessId} ${kind}`} kind={kind} />
    </Page>
  )
}

/** The stream is one for all pages. */
function PauseButton() {
  const { state, isPaused, setPaused } = useLive()
  if (state.kind === 'off') return null
  return (
    <Button icon={isPaused ? 'play' : 'pause'} onClick={() => setPaused(!isPaused)}>
      {isPaused ? 'Resume' : 'Pause'}
    </Button>
  )
}

function KindFilter() {
  const mayList = useMay()(WebhookService.method.listEventKinds)
  const { data } = useQuery(
    WebhookService.method.listEventKinds,
    {},
    { enabled: mayList, staleTime: Number.POSITIVE_INFINITY },
  )
  const choices = (data?.kinds ?? []).map(({ kind }) => ({ value: kind, label: kind }))
  return <ChoiceFilter name="kind" label="Kind" choices={choices} />
}

function Tail({ kind }: { readonly kind: string }) {
  const { live, businessId } = useViewScope()
  const [rows, setRows] = useState<EventRows>(NO_EVENTS)
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set())
  const place = useRef<HTMLDivElement>(null)
  const reading = useReading(place, 'li', () => setRows(releaseEvents))
  useEvents((events, missed) => {
    const wanted = events.filter(
      (event) =>
        event.live === live &&
        (kind === '' || event.kind === kind) &&
        (businessId === '' || event.businessId === businessId),
    )
    if (wanted.length === 0 && !missed) return
    setRows((now) => arriveEvents(now, wanted, { isHeld: reading.current, missed }))
  })
  const toggle = useCallback((id: string) => {
    setOpen((now) => {
      const next = new Set(now)
      if (!next.delete(id)) next.add(id)
      return next
    })
  }, [])
  const show = () => {
    window.scrollTo({ top: 0 })
    setRows(releaseEvents)
  }
  const items = (events: readonly Event[]) =>
    events.map((event) => (
      <EventItem key={event.id} event={event} isOpen={open.has(event.id)} onToggle={toggle} />
    ))
  return (
    <div ref={place} className="tail">
      <div className="arrivals" aria-live="polite">
        {rows.waitingCount > 0 && (
          <button type="button" className="pill" onClick={show}>
            {count(rows.waitingCount)} new
          </button>
        )}
      </div>
      {businessId === '' ? (
        <AllBusinesses rows={rows} items={items} />
      ) : (
        <OfBusiness businessId={businessId} kind={kind} rows={rows} items={items} />
      )}
    </div>
  )
}

interface TailProps {
  readonly rows: EventRows
  readonly items: (events: readonly Event[]) => readonly ReactNode[]
}

/** Only what arrives: the events of all businesses have no list. */
function AllBusinesses({ rows, items }: TailProps) {
  const { state } = useLive()
  if (rows.shown.length === 0) {
    return (
      <Empty
        title={state.kind === 'live' ? 'Waiting for events' : 'Events are not shown as they arrive'}
        command="inflow transfer simulate --account 1234567890 --amount 1500.50"
      >
        Events appear here as they are logged. Choose a business to see its earlier ones. This
        command simulates a transfer:
      </Empty>
    )
  }
  return (
    <>
      <ol className="events">{items(rows.shown)}</ol>
      {rows.isCut && <p className="faint">Earlier ones are not kept here.</p>}
    </>
  )
}

function OfBusiness({
  businessId,
  kind,
  rows,
  items,
}: TailProps & { readonly businessId: string; readonly kind: string }) {
  const { live } = useViewScope()
  const pages = useInfiniteQuery(
    EventService.method.listEvents,
    {
      businessId,
      test: !live,
      kinds: kind === '' ? [] : [kind],
      limit: PAGE_SIZE,
      newestFirst: true,
      before: 0n,
    },
    {
      pageParamKey: 'before',
      getNextPageParam: (last) => (last.hasMore ? last.nextAfter : undefined),
      staleTime: 0,
    },
  )
  const all = useMemo(() => {
    const read = pages.data?.pages.flatMap(({ events }) => events) ?? []
    if (rows.isCut) return rows.shown
    const seen = new Set([...rows.shown, ...rows.waiting].map(({ id }) => id))
    return [...rows.shown, ...read.filter(({ id }) => !seen.has(id))]
  }, [pages.data, rows])
  return (
    <ListFrame
      pages={rows.isCut ? { ...pages, hasNextPage: false } : pages}
      isEmpty={all.length === 0}
      empty={<Empty title="No such events yet">They appear here as they are logged.</Empty>}
    >
      <ol className="events">{items(all)}</ol>
      {rows.isCut && <p className="faint">Open the page again to see earlier ones.</p>}
    </ListFrame>
  )
}

/** One line of the tail, which opens in place. It is drawn again only if it opens or closes. */
const EventItem = memo(function EventItem({
  event,
  isOpen,
  onToggle,
}: {
  readonly event: Event
  readonly isOpen: boolean
  readonly onToggle: (id: string) => void
}) {
  const { text, to } = subjectOf(event)
  return (
    <li className="event">
      <button
        type="button"
        className="event-line"
        aria-expanded={isOpen}
        onClick={() => onToggle(event.id)}
      >
        <Icon name={isOpen ? 'down' : 'right'} size={12} />
        <span className="event-position">#{count(event.position)}</span>
        <span className="event-time">
          <Time at={event.occurredAt} />
        </span>
        <span className="event-kind">{event.kind}</span>
        <code className="event-subject">{text}</code>
      </button>
      {isOpen && (
        <div className="event-details">
          <p className="page-actions">
            <PageLink to={`/events/${event.id}`}>The event and its deliveries</PageLink>
            {to !== '' && <PageLink to={to}>What it is about</PageLink>}
          </p>
          <EventJson event={event} />
        </div>
      )}
    </li>
  )
})
