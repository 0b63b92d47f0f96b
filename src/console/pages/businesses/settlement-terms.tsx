import { Schedule, type Terms } from '../../../../gen/inflow/settlement/v1/settlement_pb.ts'
import { naira } from '../../format/money.ts'
import { PageLink } from '../../ui/href.tsx'
import { Facts } from '../../ui/page.tsx'

/** When the payments of a business are settled, and for which fee. */
export function SettlementTerms({
  businessId,
  terms,
}: {
  readonly businessId: string
  readonly terms: Terms
}) {
  return (
    <Facts
      facts={[
        ['Settled', scheduleText(terms)],
        ['Fee', feeText(terms)],
        [
          'Settlement',
          <PageLink key="settlement" to="/settlement" query={{ business: businessId }}>
            what falls due, and its terms
          </PageLink>,
        ],
      ]}
    />
  )
}

function scheduleText({ schedule, workingDays, cutOff }: Terms): string {
  const at = `${cutOff || '00:00'} in Lagos`
  if (schedule === Schedule.INSTANT) return 'At once'
  if (schedule === Schedule.DAILY) return `Daily at ${at}`
  return `${workingDays} working ${workingDays === 1 ? 'day' : 'days'} later, at ${at}`
}

function feeText({ feeFlatMinor, feeBasisPoints, feeCapMinor }: Terms): string {
  const parts = [
    ...(feeBasisPoints > 0 ? [`${feeBasisPoints / 100} %`] : []),
    ...(feeFlatMinor > 0n ? [naira(feeFlatMinor)] : []),
  ]
  if (parts.length === 0) return 'None'
  const most = feeCapMinor > 0n ? `, at most ${naira(feeCapMinor)}` : ''
  return `${parts.join(' and ')} of each payment${most}`
}
