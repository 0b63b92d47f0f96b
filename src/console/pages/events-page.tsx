import { toJsonString } from '@bufbuild/protobuf'
import { useInfiniteQuery, useQuery } from '@connectrpc/connect-query'
import { memo, type ReactNode, useCallback, useMemo, useRef, useState } from 'react'
import { useParams } from 'wouter'
import { type Event, EventSchema } from '../../../gen/inflow/event/v1/event_pb.ts'
import { EventService } from '../../../gen/inflow/event/v1/event_service_pb.ts'
import { DeliverySchema, DeliveryStatusSchema } from '../../../gen/inflow/webhook/v1/delivery_pb.ts'
import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { curlOfCall } from '../format/curl.ts'
import { endpointName } from '../format/ids.ts'
import { count, naira } from '../format/money.ts'
import { useEventKinds } from '../session/event-kinds.ts'
import { useEvents, useLive } from '../session/live.tsx'
import { useMay, useRestricted } from '../session/session.tsx'
import { useShowObject, useUrlState, useViewScope } from '../session/view-scope.tsx'
import { Button, Code, CopyButton } from '../ui/button.tsx'
import { columnsOf, MessageFacts } from '../ui/columns.tsx'
import { ChoiceFilter, FilterBar } from '../ui/filters.tsx'
import { Icon } from '../ui/icons.tsx'
import { ListFrame, NewRows, Table } from '../ui/list.tsx'
import { arrive, joinRows, type LiveRows, NO_ROWS, release } from '../ui/live-rows.ts'
import { Empty, Loaded, Page, Section } from '../ui/page.tsx'
import { useReading } from '../ui/reading.ts'
import { Dash, EnumStatus, Id, PageLink, Time } from '../ui/values.tsx'

const PAGE_SIZE = 50

/** The event log, newest first: new events as they arrive, and earlier events page by page. */
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

/** Pauses the stream, which all pages share. */
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
  const choices = (useEventKinds() ?? []).map(({ kind }) => ({ value: kind, label: kind }))
  return <ChoiceFilter name="kind" label="Kind" choices={choices} />
}

function Tail({ kind }: { readonly kind: string }) {
  const { live, businessId } = useViewScope()
  const [rows, setRows] = useState<LiveRows<Event>>(NO_ROWS)
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set())
  const place = useRef<HTMLDivElement>(null)
  const reading = useReading(place, 'li', () => setRows(release))
  useEvents((events, missed) => {
    const wanted = events.filter(
      (event) =>
        event.live === live &&
        (kind === '' || event.kind === kind) &&
        (businessId === '' || event.businessId === businessId),
    )
    if (wanted.length === 0 && !missed) return
    setRows((now) => arrive(now, { recorded: wanted, isHeld: reading.current, missed }))
  })
  const toggle = useCallback((id: string) => {
    setOpen((now) => now.symmetricDifference(new Set([id])))
  }, [])
  const show = () => {
    window.scrollTo({ top: 0 })
    setRows(release)
  }
  const items = (events: readonly Event[]) =>
    events.map((event) => (
      <EventItem key={event.id} event={event} isOpen={open.has(event.id)} onToggle={toggle} />
    ))
  return (
    <div ref={place} className="tail">
      <NewRows count={rows.waitingCount} onShow={show} />
      <Log kind={kind} rows={rows} items={items} />
    </div>
  )
}

interface LogProps {
  readonly kind: string
  readonly rows: LiveRows<Event>
  readonly items: (events: readonly Event[]) => readonly ReactNode[]
}

/** The events that arrived, and below them the earlier log, page by page. */
function Log({ kind, rows, items }: LogProps) {
  const { live, businessId } = useViewScope()
  const isPortal = useRestricted()
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
  const all = useMemo(
    () => joinRows(rows, pages.data?.pages.flatMap(({ events }) => events) ?? []),
    [pages.data, rows],
  )
  return (
    <ListFrame
      pages={rows.isCut ? { ...pages, hasNextPage: false } : pages}
      isEmpty={all.length === 0 && !rows.isCut}
      empty={
        <Empty
          title="No such events yet"
          command="inflow transfer simulate --account 1234567890 --amount 1500.50"
        >
          They appear here as they are logged. {!isPortal && 'This command simulates a transfer:'}
        </Empty>
      }
    >
      <ol className="events">{items(all)}</ol>
      {rows.isCut && <p className="faint">Open the page again to see earlier ones.</p>}
    </ListFrame>
  )
}

interface EventItemProps {
  readonly event: Event
  readonly isOpen: boolean
  readonly onToggle: (id: string) => void
}

/** One line of the log, which opens in place. It is redrawn only if it opens or closes. */
const EventItem = memo(function EventItem({ event, isOpen, onToggle }: EventItemProps) {
  const { text, to, who = '', minor } = subjectOf(event)
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
        <span className="event-amount">{minor !== undefined && naira(minor)}</span>
        <span className="event-who" title={who}>
          {who}
        </span>
        <code className="event-subject">{text}</code>
      </button>
      {isOpen && (
        <div className="event-details">
          <p className="page-actions">
            <PageLink to={`/events/${event.id}`}>The event and its deliveries</PageLink>
            {to !== '' && <PageLink to={to}>The subject of the event</PageLink>}
          </p>
          <EventJson event={event} />
        </div>
      )}
    </li>
  )
})

/** An event as JSON, and the commands that print it elsewhere. */
function EventJson({ event }: { readonly event: Event }) {
  const { typeName } = EventService
  const call = curlOfCall(
    window.location.origin,
    `${typeName}/${EventService.method.getEvent.name}`,
    JSON.stringify({ eventId: event.id }),
  )
  return (
    <div className="event-json">
      <div className="page-actions">
        <CopyButton text={call} what="a curl command that reads the event" label="Copy as curl" />
        <CopyButton
          text={tailCommand({ live: event.live, businessId: event.businessId, kind: event.kind })}
          what="a command that follows such events"
          label="Copy as inflow command"
        />
      </div>
      <Code title={event.id} text={toJsonString(EventSchema, event, { prettySpaces: 2 })} />
    </div>
  )
}

function tailCommand(shown: {
  readonly live: boolean
  readonly businessId: string
  readonly kind: string
}): string {
  return [
    'inflow events tail',
    shown.live ? '--live' : '--test',
    shown.kind === '' ? '' : `--kind ${shown.kind}`,
    shown.businessId === '' ? '' : `--business ${shown.businessId}`,
  ]
    .filter((part) => part !== '')
    .join(' ')
}

interface EventSubject {
  readonly text: string
  readonly to: string
  /** The customer or the payer. */
  readonly who?: string | undefined
  readonly minor?: bigint
}

/** The subject of an event in a few words, and its page. */
function subjectOf({ payload, businessId }: Event): EventSubject {
  switch (payload.case) {
    case 'transaction': {
      const { id, sessionId: text, customerName, accountName, amountMinor: minor } = payload.value
      return { text, to: `/payments/${id}`, who: customerName || accountName, minor }
    }
    case 'account': {
      const { accountNumber, reference, accountName: who } = payload.value
      const to = `/accounts/${businessId}/${reference}`
      return { text: accountNumber || reference, to, who }
    }
    case 'settlement': {
      const { id, netMinor: minor } = payload.value
      return { text: id, to: `/settlement/${id}`, minor }
    }
    case 'share': {
      const { ownerName: who, amountMinor: minor } = payload.value
      return { text: '', to: '', who, minor }
    }
    case 'payout': {
      const { id, reference: text, beneficiary, amountMinor: minor } = payload.value
      return { text, to: `/payouts/${id}`, who: beneficiary?.accountName, minor }
    }
    case 'endpoint':
      return { text: payload.value.url, to: `/webhooks/${payload.value.id}` }
    case 'paymentConflict': {
      const { id, transactionId, amountMinor: minor } = payload.value
      return { text: id, to: `/payments/${transactionId}`, minor }
    }
    case 'unmatchedPayment': {
      const { id: text, payer, amountMinor: minor } = payload.value
      return { text, to: '/review', who: payer?.name, minor }
    }
    case 'heldNotification': {
      const { id: text, amountMinor: minor } = payload.value
      return { text, to: '/review', minor }
    }
    default:
      return { text: '', to: '' }
  }
}

/** One event: its content, and its deliveries. */
export function EventPage() {
  const { id = '' } = useParams()
  const read = useQuery(EventService.method.getEvent, { eventId: id })
  const event = read.data?.event
  useShowObject(event)
  const mayList = useMay()(WebhookService.method.listDeliveries)
  return (
    <Page title={event?.kind ?? 'Event'} actions={<Id text={id} charsMax={40} />}>
      <Loaded read={read} rows={10} />
      {event && (
        <div className="two-thirds">
          <EventJson event={event} />
          <aside aria-label="The event">
            <MessageFacts
              schema={EventSchema}
              of={event}
              facts={[
                ['In the log', ({ position }) => `#${count(position)}`],
                [
                  'Business',
                  ({ businessId }) =>
                    businessId && (
                      <PageLink to={`/businesses/${businessId}`}>{businessId}</PageLink>
                    ),
                ],
                [
                  'Of the business',
                  ({ businessSequence }) => businessSequence > 0n && `#${count(businessSequence)}`,
                ],
                'occurredAt',
                ['Mode', ({ live }) => (live ? 'Live' : 'Test')],
                ['About', () => <Subject {...subjectOf(event)} />],
              ]}
            />
            {mayList && <Deliveries eventId={id} />}
          </aside>
        </div>
      )}
    </Page>
  )
}

function Subject({ text, to }: { readonly text: string; readonly to: string }) {
  return to === '' ? <Dash /> : <PageLink to={to}>{text}</PageLink>
}

const COLUMNS = columnsOf(DeliverySchema, [
  ['Status', ({ status }) => <EnumStatus of={DeliveryStatusSchema} value={status} />],
  [
    'Endpoint',
    ({ endpointUrl, endpointDescription }) => (
      <span title={endpointUrl}>{endpointName(endpointUrl, endpointDescription)}</span>
    ),
  ],
  ['Attempts', 'attemptCount'],
])

function Deliveries({ eventId }: { readonly eventId: string }) {
  const read = useQuery(WebhookService.method.listDeliveries, { eventId })
  return (
    <Section title="Deliveries">
      <Loaded read={read} rows={2}>
        {({ deliveries }) =>
          deliveries.length === 0 ? (
            <p className="faint">It was sent to no endpoint.</p>
          ) : (
            <Table
              label="Deliveries"
              columns={COLUMNS}
              rows={deliveries}
              hrefOf={({ id }, href) => href(`/webhooks/deliveries/${id}`)}
            />
          )
        }
      </Loaded>
    </Section>
  )
}
