import {
  type Payout,
  PayoutStatus,
  PayoutStatusSchema,
} from '../../../gen/inflow/payout/v1/payout_pb.ts'
import { words } from '../format/ids.ts'
import { useEvents } from '../session/live.tsx'
import { useSession } from '../session/session.tsx'
import { EnumStatus, Id, Money } from '../ui/values.tsx'

/** Statuses that change without a decision and without an event. */
const MOVING: ReadonlySet<PayoutStatus> = new Set([
  PayoutStatus.APPROVED,
  PayoutStatus.SUBMITTING,
  PayoutStatus.UNKNOWN,
])

const MOVING_MS = 3_000

/** The interval in milliseconds at which to read payouts again; false: only when an event arrives. */
export function payoutsReadMs(payouts: readonly Payout[]): number | false {
  return payouts.some(({ status }) => MOVING.has(status)) ? MOVING_MS : false
}

/** Reads again when an event concerns one of some payouts, or may have been missed. */
export function usePayoutEvents(concerns: (payout: Payout) => boolean, read: () => unknown): void {
  useEvents((events, missed) => {
    const isConcerned = events.some(
      ({ payload }) => payload.case === 'payout' && concerns(payload.value),
    )
    if (isConcerned || missed) void read()
  })
}

/** Statuses in which the money stayed with the business, or came back to it. */
const KEPT: ReadonlySet<PayoutStatus> = new Set([
  PayoutStatus.FAILED,
  PayoutStatus.REJECTED,
  PayoutStatus.CANCELLED,
  PayoutStatus.EXPIRED,
  PayoutStatus.RETURNED,
])

/** Whether the amount has left the business, or is reserved for the payout. */
export function isTaken({ status }: Payout): boolean {
  return !KEPT.has(status)
}

/** The amount of a payout; struck through if the beneficiary did not get it. */
export function payoutAmount(payout: Payout) {
  return <Money minor={payout.amountMinor} isReversed={!isTaken(payout)} />
}

export function PayoutStatusShown({ status }: Pick<Payout, 'status'>) {
  return <EnumStatus of={PayoutStatusSchema} value={status} />
}

/** The name of the viewer in fields such as `requestedBy`. */
export function useOwnName(): string {
  const { id } = useSession()
  return id === 'bootstrap' ? id : `token:${id}`
}

/** Shows who requested or decided a payout: `token:tok_…`, `secret_key:key_…`, `bootstrap`; empty: the service itself. */
export function Requester({ of }: { readonly of: string }) {
  const own = useOwnName()
  if (of === '' || of === 'system') return 'the service'
  if (of === own) return 'you'
  if (of === 'operator') return 'an operator'
  if (of === 'bootstrap') return 'ADMIN_TOKEN'
  const at = of.indexOf(':')
  if (at < 0) return words(of).toLowerCase()
  return (
    <>
      {words(of.slice(0, at)).toLowerCase()} <Id text={of.slice(at + 1)} />
    </>
  )
}
