import { useEffect, useRef } from 'react'
import type { Event } from '../../../gen/browser/inflow/event/v1/event_pb.ts'
import { useEvents } from './live.tsx'

/** How long after an event a list is read again: its deliveries are made meanwhile. */
const DELAY_MS = 1_500

/**
 * Reads a list again when events arrive that concern it, at most once in 1.5 s.
 *
 * @param concerns whether an event changes the list
 */
export function useRefetch(refetch: () => unknown, concerns: (event: Event) => boolean): void {
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  const latest = useRef(refetch)
  latest.current = refetch
  useEvents((events) => {
    if (timer.current !== undefined || !events.some(concerns)) return
    timer.current = setTimeout(() => {
      timer.current = undefined
      void latest.current()
    }, DELAY_MS)
  })
  useEffect(() => () => clearTimeout(timer.current), [])
}
