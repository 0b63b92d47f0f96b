import { useEffect, useMemo, useRef, useState } from 'react'
import type { Event } from '../../../../gen/inflow/event/v1/event_pb.ts'
import {
  HoldState,
  type Transaction,
} from '../../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { useEvents, useLive } from '../../session/live.tsx'
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
    const recorded = events.filter(isArrival).flatMap(paymentOf)
    const changed = events.filter((event) => !isArrival(event)).flatMap(paymentOf)
    const isHeld = reading.current
    setRows((now) => arrive(now, { recorded, changed, matches, known, isHeld, missed }))
  })
  useRereadOnceLive(reread)
  const joined = useMemo(() => joinRows(rows, read), [rows, read])
  const fresh = useMemo(() => new Set(rows.fresh), [rows.fresh])
  return {
    rows: joined,
    fresh,
    waitingCount: rows.waitingCount,
    isCut: rows.isCut,
    release: () => setRows(release),
    restart,
  }
}

/** Whether a payment was recorded: one that was on hold was so before. */
function isArrival({ kind, payload }: Event): boolean {
  if (kind === 'PAYMENT_ON_HOLD') return true
  const wasHeld =
    payload.case === 'transaction' && payload.value.holdState !== HoldState.UNSPECIFIED
  return kind === 'PAYMENT_NOTIFICATION' && !wasHeld
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
