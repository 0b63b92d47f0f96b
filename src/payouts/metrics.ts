import { Counter, type Registry } from 'prom-client'
import { registerSampledGauges } from '../core/sampled-gauges.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { DISCREPANCY_KINDS, type DiscrepancyKind } from './discrepancy.ts'
import { isFinal, PAYOUT_STATUSES, type Payout, type PayoutStatus } from './payout.ts'

/** Returns a function that counts a payout in the status that it has reached. */
export function createPayoutCounter(
  register: Registry,
): (payout: Pick<Payout, 'status' | 'live'>) => void {
  const reached = new Counter({
    name: 'inflow_payouts_total',
    help: 'Payouts by the status that they reached and the mode.',
    labelNames: ['status', 'mode'],
    registers: [register],
  })
  // All series begin at 0, because Prometheus does not count the step from absent to 1 as an increase.
  for (const status of PAYOUT_STATUSES) {
    for (const mode of ['live', 'test']) reached.inc({ status, mode }, 0)
  }
  return ({ status, live }) => reached.inc({ status, mode: live ? 'live' : 'test' })
}

/** The payouts of a status that are not final. */
interface OpenPayouts {
  readonly status: PayoutStatus
  readonly count: number
  readonly oldestSeconds: number
  readonly amountMinor: number
}

interface Sample {
  readonly open: readonly OpenPayouts[]
  readonly floats: readonly {
    readonly bank: string
    readonly availableMinor: number
    readonly ageSeconds: number
  }[]
  readonly discrepancies: ReadonlyMap<DiscrepancyKind, number>
}

/** A sample takes three statements, so it is read less often than other gauges. */
const PERIOD_MS = 10_000

/** Registers the gauges of payouts in live mode. */
export function registerPayoutMetrics({ metrics, database, clock }: Runtime): void {
  const ofStatus = (measure: (of: OpenPayouts) => number) => (sample: Sample) =>
    PAYOUT_STATUSES.filter((status) => !isFinal(status)).map((status) => {
      const found = sample.open.find((each) => each.status === status)
      return { labels: { status }, value: found === undefined ? 0 : measure(found) }
    })
  const ofBank = (measure: (of: Sample['floats'][number]) => number) => (sample: Sample) =>
    sample.floats.map((float) => ({ labels: { bank: float.bank }, value: measure(float) }))
  registerSampledGauges<Sample>(
    metrics,
    () => database.read((on) => readSample(on, clock.now())),
    [
      {
        name: 'inflow_payouts_open',
        help: 'Payouts in live mode that are not final, by status: up to 10,000 that await approval, and 10,000 others.',
        labelNames: ['status'],
        measure: ofStatus(({ count }) => count),
      },
      {
        name: 'inflow_payouts_oldest_seconds',
        help: 'How long ago the oldest payout of a status in live mode was sent, or requested if it was not; 0: there is none.',
        labelNames: ['status'],
        measure: ofStatus(({ oldestSeconds }) => oldestSeconds),
      },
      {
        name: 'inflow_payouts_waiting_kobo',
        help: 'The sum of the payouts in live mode that are approved and not sent, in kobo.',
        measure: ({ open }) => open.find(({ status }) => status === 'APPROVED')?.amountMinor ?? 0,
      },
      {
        name: 'inflow_bank_float_kobo',
        help: 'What the account that a bank pays payouts from had when it was last read, in kobo.',
        labelNames: ['bank'],
        measure: ofBank(({ availableMinor }) => availableMinor),
      },
      {
        name: 'inflow_bank_float_age_seconds',
        help: 'How long ago that account was last read.',
        labelNames: ['bank'],
        measure: ofBank(({ ageSeconds }) => ageSeconds),
      },
      {
        name: 'inflow_payout_discrepancies',
        help: 'Unresolved differences between what banks sent out and the payouts in live mode, by kind: up to 1,000 in all.',
        labelNames: ['kind'],
        measure: ({ discrepancies }) =>
          DISCREPANCY_KINDS.map((kind) => ({
            labels: { kind },
            value: discrepancies.get(kind) ?? 0,
          })),
      },
    ],
    { periodMs: PERIOD_MS },
  )
}

/** @param openMax the most payouts that are read of those that await approval, and of the other open ones */
export async function readSample(on: Queryable, nowMs: number, openMax = 10_000): Promise<Sample> {
  const { rows: open } = await on.query<OpenPayouts>({
    name: 'payout-metrics-open',
    text: `select status, count(*)::int as count, sum(amount_minor)::float8 as "amountMinor",
        greatest(0, date_part('epoch', $1 - min(since))) as "oldestSeconds"
      from (
        (select status, amount_minor, created_at as since from payout
          where completed_at is null and live and status = 'PENDING_APPROVAL' order by id limit $2)
        union all
        (select status, amount_minor, coalesce(submitted_at, created_at) from payout
          where completed_at is null and live and status <> 'PENDING_APPROVAL' order by id limit $2)
      ) open group by status`,
    values: [new Date(nowMs), openMax],
  })
  const { rows: floats } = await on.query<Sample['floats'][number]>({
    name: 'payout-metrics-floats',
    text: `select bank, available_minor::float8 as "availableMinor",
        greatest(0, date_part('epoch', now() - read_at)) as "ageSeconds"
      from bank_float where live and read_at is not null`,
  })
  const { rows: kinds } = await on.query<{ kind: DiscrepancyKind; count: number }>({
    name: 'payout-metrics-discrepancies',
    text: `select kind, count(*)::int as count from (
        select kind from payout_discrepancy where resolved_at is null and live limit 1000
      ) unresolved group by kind`,
  })
  return { open, floats, discrepancies: new Map(kinds.map(({ kind, count }) => [kind, count])) }
}
