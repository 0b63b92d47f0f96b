import { SettlementStatus } from '../../../../gen/inflow/settlement/v1/settlement_pb.ts'
import { count, naira } from '../../format/money.ts'
import { durationText } from '../../format/time.ts'
import { useNow } from '../../ui/clock.ts'
import { PageLink } from '../../ui/href.tsx'
import { Facts } from '../../ui/page.tsx'
import type { Run } from './use-run.ts'

/** The most settlements that are linked. */
const SHOWN_MAX = 10

/** How far a run is, and how fast. */
export function RunProgress({ run }: { readonly run: Run }) {
  const { settlements, startedMs, endedMs, state } = run
  const now = useNow()
  const elapsedMs = Math.max(1, (endedMs ?? now) - startedMs)
  const payments = settlements.reduce((sum, each) => sum + each.transactionCount, 0n)
  const net = settlements.reduce((sum, each) => sum + each.netMinor, 0n)
  const done = settlements.filter(({ status }) => status === SettlementStatus.COMPLETED).length
  const percent =
    settlements.reduce((sum, { percentDone }) => sum + percentDone, 0) /
    Math.max(1, settlements.length)
  return (
    <>
      <progress
        aria-label="Settled"
        max={100}
        {...((state === 'done' || settlements.length > 0) && {
          value: state === 'done' ? 100 : percent,
        })}
      />
      <p role="status">
        {state === 'done' && settlements.length === 0 && 'Nothing was due.'}
        {state === 'done' && settlements.length > 0 && 'Everything that was due is settled.'}
        {state === 'running' && 'Settling… It continues if you close this.'}
      </p>
      <Facts
        facts={[
          ['Settlements', `${done} of ${settlements.length}`],
          ['Payments', count(payments)],
          ['Net', naira(net)],
          ['Rate', `${count((payments * 1_000n) / BigInt(elapsedMs))} payments a second`],
          ['Took', durationText(elapsedMs)],
        ]}
      />
      <ul>
        {settlements.slice(0, SHOWN_MAX).map(({ id, percentDone }) => (
          <li key={id}>
            <PageLink to={`/settlement/${id}`}>{id}</PageLink> {percentDone} %
          </li>
        ))}
      </ul>
    </>
  )
}
