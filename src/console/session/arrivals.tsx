import { type ReactNode, useEffect, useRef, useState } from 'react'
import type { Event } from '../../../gen/inflow/event/v1/event_pb.ts'
import { useEvents } from './live.tsx'

/** How long after an event a list is read again: what the event causes is made meanwhile. */
const DELAY_MS = 1_500

/** Further down than this, the viewer reads: rows must not move. */
const SCROLLED_PX = 80

/**
 * Reads a list again when events arrive that concern it, at most once in 1.5 s. While the viewer has scrolled, it
 * counts them instead.
 *
 * @param concerns whether an event changes the list
 * @returns a button that shows them; null if there are none
 */
export function useArrivals(
  refetch: () => unknown,
  concerns: (event: Event) => boolean,
): ReactNode {
  const [waiting, setWaiting] = useState(0)
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  const latest = useRef(refetch)
  latest.current = refetch
  useEvents((events) => {
    const count = events.filter(concerns).length
    if (count === 0) return
    if (window.scrollY > SCROLLED_PX) return setWaiting((before) => before + count)
    timer.current ??= setTimeout(() => {
      timer.current = undefined
      void latest.current()
    }, DELAY_MS)
  })
  useEffect(() => () => clearTimeout(timer.current), [])
  if (waiting === 0) return null
  const show = () => {
    setWaiting(0)
    void refetch()
  }
  return (
    <button type="button" className="pill" onClick={show}>
      {waiting} new
    </button>
  )
}
