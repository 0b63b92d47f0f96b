import { useQuery } from '@connectrpc/connect-query'
import { useEffect, useState } from 'react'
import type { Event } from '../../../../gen/inflow/event/v1/event_pb.ts'
import { OverviewService } from '../../../../gen/inflow/overview/v1/overview_service_pb.ts'
import { msOf } from '../../format/time.ts'
import { useEvents } from '../../live/live.tsx'
import { useViewScope } from '../../session/view-scope.ts'
import { type Arrivals, addArrivals, keepUncounted, NO_ARRIVALS } from './arrivals.ts'

/** How often the figures are read: no stream has those of webhooks, banks and the database. */
const REFRESH_MS = 30_000

/** The figures, and the payments that arrived since they were computed. */
export function useOverview() {
  const { live, businessId } = useViewScope()
  const read = useQuery(
    OverviewService.method.getOverview,
    { businessId, test: !live },
    { refetchInterval: REFRESH_MS },
  )
  const [arrivals, setArrivals] = useState<Arrivals>(NO_ARRIVALS)
  const { data, refetch } = read
  const atMs = msOf(data?.at)
  const uncounted = Number(data?.health?.uncountedEvents ?? 0n)
  useEffect(() => {
    if (atMs !== undefined) setArrivals((now) => keepUncounted(now, atMs, uncounted))
  }, [atMs, uncounted])
  // biome-ignore lint/correctness/useExhaustiveDependencies: other figures begin anew
  useEffect(() => setArrivals(NO_ARRIVALS), [live, businessId])
  useEvents((events, missed) => {
    if (missed) void refetch()
    const payments = events
      .filter(isPaymentOf(live, businessId))
      .map(({ occurredAt, payload }) => ({
        atMs: msOf(occurredAt) ?? 0,
        amountMinor: payload.case === 'transaction' ? payload.value.amountMinor : 0n,
      }))
    if (payments.length > 0) setArrivals((now) => addArrivals(now, payments))
  })
  return { ...read, arrivals }
}

function isPaymentOf(live: boolean, businessId: string): (event: Event) => boolean {
  return (event) =>
    event.kind === 'PAYMENT_NOTIFICATION' &&
    event.live === live &&
    (businessId === '' || event.businessId === businessId)
}
