import {
  type Payout,
  PayoutStatus,
  PayoutStatusSchema,
} from '../../../gen/inflow/payout/v1/payout_pb.ts'
import { words } from '../format/ids.ts'
import { useRestricted, useSession } from '../session/session.tsx'
import { EnumStatus, Id, Money } from '../ui/values.tsx'

/** Statuses in which a payout moves on by itself, and without an event. */
const MOVING: ReadonlySet<PayoutStatus> = new Set([
  PayoutStatus.APPROVED,
  PayoutStatus.SUBMITTING,
  PayoutStatus.UNKNOWN,
])

const MOVING_MS = 3_000

/** In how many milliseconds to read payouts again; false: not until an event arrives. */
export function payoutsReadMs(payouts: readonly Payout[]): number | false {
  return payouts.some(({ status }) => MOVING.has(status)) ? MOVING_MS : false
}

/** Statuses in which the money stays with the business, or is with it again. */
const KEPT: ReadonlySet<PayoutStatus> = new Set([
  PayoutStatus.FAILED,
  PayoutStatus.REJECTED,
  PayoutStatus.CANCELLED,
  PayoutStatus.EXPIRED,
  PayoutStatus.RETURNED,
])

/** Whether the amount has left the business, or is reserved for it. */
export function isTaken({ status }: Payout): boolean {
  return !KEPT.has(status)
}

/** The amount of a payout; struck through where nobody got it. */
export function payoutAmount(payout: Payout) {
  return <Money minor={payout.amountMinor} isReversed={!isTaken(payout)} />
}

export function PayoutStatusShown({ status }: Pick<Payout, 'status'>) {
  return <EnumStatus of={PayoutStatusSchema} value={status} />
}

/** How the service names the viewer where it says who requested or decided. */
export function useOwnName(): string {
  const { id } = useSession()
  return id === 'bootstrap' ? id : `token:${id}`
}

/** Who requested or decided: `token:tok_…`, `secret_key:key_…`, `bootstrap`; empty: the service itself. */
export function Requester({ of }: { readonly of: string }) {
  const own = useOwnName()
  const isPortal = useRestricted()
  if (of === '' || of === 'system') return 'the service'
  if (of === own) return 'you'
  if (of === 'bootstrap') return isPortal ? 'an operator' : 'ADMIN_TOKEN'
  const at = of.indexOf(':')
  if (at < 0) return words(of).toLowerCase()
  return (
    <>
      {words(of.slice(0, at)).toLowerCase()} <Id text={of.slice(at + 1)} />
    </>
  )
}
