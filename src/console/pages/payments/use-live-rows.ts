import type { RefObject } from 'react'
import { useEffect, useMemo, useRef, useState } from 'react'
import type { Event } from '../../../../gen/browser/inflow/event/v1/event_pb.ts'
import type { Transaction } from '../../../../gen/browser/inflow/transaction/v1/transaction_pb.ts'
import { useEvents, useLive } from '../../live/live.tsx'
import { arrive, joinRows, NO_ROWS, release } from './live-rows.ts'

/** The rows of a list that grows above as payments arrive, unless the viewer reads it. */
export function useLiveRows(options: {
  readonly read: readonly Transaction[]
  readonly matches: (payment: Transaction) => boolean
  readonly reading: { readonly current: boolean }
  /** Reads the list from the beginning. */
  readonly reread: () => void
}) {
  const { read, matches, reading, reread } = options
  const [rows, setRows] = useState(NO_ROWS)
  const known = useMemo(() => new Set(read.map(({ id }) => id)), [read])
  const restart = () => {
    setRows(NO_ROWS)
    reread()
  }
  useEvents((events, missed) => {
    if (missed && events.length === 0) return restart()
    const recorded = events.filter(({ kind }) => kind === 'PAYMENT_NOTIFICATION').flatMap(paymentOf)
    const changed = events.filter(({ kind }) => kind !== 'PAYMENT_NOTIFICATION').flatMap(paymentOf)
    const isHeld = reading.current
    setRows((now) => arrive(now, { recorded, changed, matches, known, isHeld, missed }))
  })
  useRereadOnceLive(reread)
  const joined = useMemo(() => joinRows(rows, read), [rows, read])
  const fresh = useMemo(() => new Set(rows.shown.map(({ id }) => id)), [rows.shown])
  return {
    rows: joined,
    fresh,
    waitingCount: rows.waitingCount,
    isCut: rows.isCut,
    release: () => setRows(release),
    restart,
  }
}

/** The payment of an event; it was credited when the event was recorded. */
function paymentOf({ payload, occurredAt }: Event): Transaction[] {
  if (payload.case !== 'transaction') return []
  return [{ ...payload.value, ...(occurredAt && { recordedAt: occurredAt }) }]
}

/** What was recorded between the first reading and the start of the stream is in neither. */
function useRereadOnceLive(reread: () => void): void {
  const { state } = useLive()
  const wasLive = useRef(state.kind === 'live')
  const latest = useRef(reread)
  latest.current = reread
  useEffect(() => {
    if (state.kind !== 'live' || wasLive.current) return
    wasLive.current = true
    latest.current()
  }, [state.kind])
}

/** How far down the page counts as reading. */
const SCROLLED_PX = 40

/**
 * Whether the viewer reads the rows: the pointer or the focus is on them, or the page is scrolled.
 *
 * @param onEnd called when the viewer stops
 */
export function useReading(
  place: RefObject<HTMLElement | null>,
  onEnd: () => void,
): { readonly current: boolean } {
  const reading = useRef(false)
  const latest = useRef(onEnd)
  latest.current = onEnd
  useEffect(() => {
    const element = place.current
    if (element === null) return undefined
    let isOver = false
    const update = () => {
      const isFocused = element.querySelector('tbody')?.contains(document.activeElement) === true
      const now = isOver || isFocused || window.scrollY > SCROLLED_PX
      if (reading.current === now) return
      reading.current = now
      if (!now) latest.current()
    }
    const over = (event: PointerEvent) => {
      const { target } = event
      isOver = target instanceof Element && target.closest('tbody') !== null
      update()
    }
    const leave = () => {
      isOver = false
      update()
    }
    element.addEventListener('pointerover', over)
    element.addEventListener('pointerleave', leave)
    element.addEventListener('focusin', update)
    // The focus is nowhere yet while it moves.
    const focusout = () => queueMicrotask(update)
    element.addEventListener('focusout', focusout)
    window.addEventListener('scroll', update, { passive: true })
    return () => {
      element.removeEventListener('pointerover', over)
      element.removeEventListener('pointerleave', leave)
      element.removeEventListener('focusin', update)
      element.removeEventListener('focusout', focusout)
      window.removeEventListener('scroll', update)
    }
  }, [place])
  return reading
}
