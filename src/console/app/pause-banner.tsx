import { useQuery } from '@connectrpc/connect-query'
import { type Pause, PauseScope } from '../../../gen/inflow/payout/v1/payout_pb.ts'
import { PayoutService } from '../../../gen/inflow/payout/v1/payout_service_pb.ts'
import { bankName } from '../format/enums.ts'
import { useBusinessNames } from '../session/business-names.ts'
import { useLive } from '../session/live.tsx'
import { useRestricted } from '../session/session.tsx'
import { useViewScope } from '../session/view-scope.tsx'
import { PageLink, Time } from '../ui/values.tsx'

/** How often pauses are read. They are polled, because they have no events. */
const REFRESH_MS = 15_000

const SHOWN_MAX = 3

/** Shows on every page the pauses that affect the viewer. A business sees neither reasons nor the names of banks. */
export default function PauseBanner() {
  const { businessId } = useViewScope()
  const isPortal = useRestricted()
  const { state } = useLive()
  const { data } = useQuery(
    PayoutService.method.listPauses,
    { businessId, pageSize: 50 },
    // Reads pauses after the first data of the page itself.
    { enabled: state.kind !== 'connecting', refetchInterval: REFRESH_MS },
  )
  const pauses = (data?.pauses ?? []).filter(({ scope }) => !isPortal || scope !== PauseScope.BANK)
  const nameOf = useBusinessNames(pauses.flatMap(({ businessId: id }) => (id === '' ? [] : [id])))
  if (pauses.length === 0) return null
  return (
    <div className="pause-banner" role="status">
      <div>
        {pauses.slice(0, SHOWN_MAX).map((pause) => (
          <p key={`${pause.scope} ${pause.businessId} ${pause.bank}`}>
            <strong>{pausedText(pause, nameOf)}</strong> since <Time at={pause.pausedAt} />
            {!isPortal && `: ${pause.reason}`}
          </p>
        ))}
        {pauses.length > SHOWN_MAX && <p>and {pauses.length - SHOWN_MAX} more</p>}
      </div>
      {!isPortal && (
        <PageLink to="/payouts/controls" className="button">
          Pauses
        </PageLink>
      )}
    </div>
  )
}

function pausedText({ scope, businessId, bank }: Pause, nameOf: (id: string) => string): string {
  if (scope === PauseScope.BANK) return `Payouts through ${bankName(bank)} are paused`
  if (scope === PauseScope.BUSINESS) return `Payouts of ${nameOf(businessId)} are paused`
  return 'All payouts are paused'
}
