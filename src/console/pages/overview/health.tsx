import type { Health as Figures, Waiting } from '../../../../gen/inflow/overview/v1/figures_pb.ts'
import { count } from '../../format/money.ts'
import { durationText } from '../../format/time.ts'
import { Facts, Section } from '../../ui/page.tsx'
import { Status } from '../../ui/status.tsx'
import { Time } from '../../ui/values.tsx'

/** The service and its database, as the instance that answered sees them. */
export function Health({
  health,
  waiting,
}: {
  readonly health: Figures
  readonly waiting: Waiting | undefined
}) {
  const { notReady, standbys } = health
  return (
    <Section title="Health">
      <Facts
        facts={[
          [
            'Service',
            notReady.length === 0 ? (
              <Status key="ready" tone="good">
                Ready
              </Status>
            ) : (
              <Status key="ready" tone="bad">{`Not ready: ${notReady.join(', ')}`}</Status>
            ),
          ],
          ['Database', `PostgreSQL ${health.postgresVersion}, ${health.databaseLatencyMs} ms`],
          [
            'Standbys',
            standbys.length === 0
              ? 'none'
              : standbys.map(({ name, state, replayLagMs }) => (
                  <div key={name}>
                    {name}: {state}, {durationText(Number(replayLagMs))} behind
                  </div>
                )),
          ],
          [
            'Events to number',
            health.sequencerLagMs > 0n
              ? `oldest ${durationText(Number(health.sequencerLagMs))}`
              : 'none',
          ],
          ['Without deliveries', `${count(health.undispatchedEvents)} events`],
          [
            'Deliveries due',
            waiting && waiting.dueDeliveries > 0 ? (
              <>
                {waiting.dueDeliveries >= 10_000 ? '10,000+' : count(waiting.dueDeliveries)}, oldest{' '}
                <Time at={waiting.oldestDeliveryDueAt} />
              </>
            ) : (
              'none'
            ),
          ],
          ['Version', health.version],
        ]}
      />
    </Section>
  )
}
