import { useMemo } from 'react'
import type { EndpointStatistics } from '../../../../gen/inflow/webhook/v1/endpoint_pb.ts'
import { durationText, msOf } from '../../format/time.ts'
import { Chart } from '../../ui/charts/chart.tsx'
import { Section } from '../../ui/page.tsx'

const whole = (value: number) => (Number.isInteger(value) ? String(value) : '')

/** The last 24 hours: how many were acknowledged and failed, and how long receivers took. */
export function EndpointCharts({ statistics }: { readonly statistics: EndpointStatistics }) {
  const { hours } = statistics
  const { times, counts, latencies } = useMemo(
    () => ({
      times: hours.map(({ from }) => (msOf(from) ?? 0) / 1_000),
      counts: [
        { label: 'Delivered', colour: '--good', values: hours.map((each) => each.deliveredCount) },
        { label: 'Failed', colour: '--bad', values: hours.map((each) => each.failedCount) },
      ],
      latencies: [
        {
          label: 'p50',
          colour: '--accent',
          values: hours.map((each) => each.latencyP50Ms || null),
        },
        {
          label: 'p95',
          colour: '--waiting',
          values: hours.map((each) => each.latencyP95Ms || null),
        },
      ],
    }),
    [hours],
  )
  return (
    <div className="charts">
      <Section title="Deliveries by hour">
        <Chart label="Deliveries by hour" times={times} series={counts} format={whole} />
      </Section>
      <Section title="Latency by hour">
        <Chart label="Latency by hour" times={times} series={latencies} format={durationText} />
      </Section>
    </div>
  )
}
