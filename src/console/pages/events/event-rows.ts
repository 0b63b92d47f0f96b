import type { Event } from '../../../../gen/inflow/event/v1/event_pb.ts'

/** The most events that are kept of those that arrived, both shown and waiting. */
const EVENTS_MAX = 300

/** Events that arrived while the tail is open, newest first. */
export interface EventRows {
  readonly shown: readonly Event[]
  /** Arrived while the viewer reads. */
  readonly waiting: readonly Event[]
  readonly waitingCount: number
  /** Older ones were dropped. */
  readonly isCut: boolean
}

export const NO_EVENTS: EventRows = { shown: [], waiting: [], waitingCount: 0, isCut: false }

/** @param events in the order of the log */
export function arriveEvents(
  rows: EventRows,
  events: readonly Event[],
  { isHeld, missed }: { readonly isHeld: boolean; readonly missed: boolean },
): EventRows {
  const known = new Set([...rows.shown, ...rows.waiting].map(({ id }) => id))
  const fresh = events.filter(({ id }) => !known.has(id)).reverse()
  const all = [...fresh, ...rows.waiting]
  const next = {
    ...rows,
    waiting: all.slice(0, EVENTS_MAX),
    waitingCount: rows.waitingCount + fresh.length,
    isCut: rows.isCut || missed || all.length > EVENTS_MAX,
  }
  return isHeld ? next : releaseEvents(next)
}

export function releaseEvents(rows: EventRows): EventRows {
  if (rows.waitingCount === 0) return rows
  const all = [...rows.waiting, ...rows.shown]
  return {
    shown: all.slice(0, EVENTS_MAX),
    waiting: [],
    waitingCount: 0,
    isCut: rows.isCut || all.length > EVENTS_MAX,
  }
}

/** What an event is about, in a few words, and its page. */
export function subjectOf(event: Event): { readonly text: string; readonly to: string } {
  const { payload, businessId } = event
  switch (payload.case) {
    case 'transaction':
      return { text: payload.value.sessionId, to: `/payments/${payload.value.id}` }
    case 'account':
      return {
        text: payload.value.accountNumber || payload.value.reference,
        to: `/accounts/${businessId}/${payload.value.reference}`,
      }
    case 'settlement':
      return { text: payload.value.id, to: `/settlement/${payload.value.id}` }
    case 'endpoint':
      return { text: payload.value.url, to: `/webhooks/${payload.value.id}` }
    case 'paymentConflict':
      return { text: payload.value.id, to: `/payments/${payload.value.transactionId}` }
    case 'unmatchedPayment':
      return { text: payload.value.id, to: '/review' }
    case 'heldNotification':
      return { text: payload.value.id, to: '/review' }
    default:
      return { text: '', to: '' }
  }
}
