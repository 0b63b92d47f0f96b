import { memo } from 'react'
import type { Event } from '../../../../gen/inflow/event/v1/event_pb.ts'
import { count } from '../../format/money.ts'
import { PageLink } from '../../ui/href.tsx'
import { Icon } from '../../ui/icons.tsx'
import { Time } from '../../ui/values.tsx'
import { EventJson } from './event-json.tsx'
import { subjectOf } from './event-rows.ts'

/** One line of the tail, which opens in place. It is drawn again only if it opens or closes. */
export const EventItem = memo(function EventItem({
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
