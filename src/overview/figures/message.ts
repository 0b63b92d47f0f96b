import { create, type MessageInitShape } from '@bufbuild/protobuf'
import {
  type BankState as BankMessage,
  BankStateSchema,
  type Health as HealthMessage,
  HealthSchema,
  HourFiguresSchema,
  type HourFigures as HourMessage,
  WaitingSchema,
} from '../../../gen/inflow/overview/v1/figures_pb.ts'
import type { GetOverviewResponseSchema } from '../../../gen/inflow/overview/v1/overview_service_pb.ts'
import packageJson from '../../../package.json' with { type: 'json' }
import { fromBankCode } from '../../banks/message.ts'
import { toInt64 } from '../../protobuf/int64.ts'
import { toTimestamp } from '../../protobuf/timestamp.ts'
import { toRunMessage } from '../../reconciliation/message.ts'
import { toCountMessage } from '../review/message.ts'
import type { HourFigures } from './read-hours.ts'
import type { BankState, Health, Overview } from './read-overview.ts'

export function toOverviewMessage(
  overview: Overview,
): MessageInitShape<typeof GetOverviewResponseSchema> {
  const { atMs, day, weekBefore, review, banks, health } = overview
  return {
    at: toTimestamp(atMs),
    hours: day.hours.map(toHourMessage),
    weekBefore: weekBefore.hours.map(toHourMessage),
    total: toHourMessage(day.total),
    weekBeforeTotal: toHourMessage(weekBefore.total),
    review: review.map(toCountMessage),
    waiting: toWaitingMessage(overview),
    banks: banks.map(toBankMessage),
    ...(health && { health: toHealthMessage(health) }),
  }
}

const toTime = (atMs: number | undefined) => (atMs === undefined ? undefined : toTimestamp(atMs))

function toHourMessage(hour: HourFigures): HourMessage {
  const { startsAtMs, attempts, delivered, failed, delayP95Ms, ...payments } = hour
  return create(HourFiguresSchema, {
    ...payments,
    amountMinor: toInt64(payments.amountMinor),
    reversedMinor: toInt64(payments.reversedMinor),
    startsAt: toTimestamp(startsAtMs),
    attempts: BigInt(attempts),
    delivered: BigInt(delivered),
    failed: BigInt(failed),
    delayP95Ms: BigInt(delayP95Ms),
  })
}

function toWaitingMessage({ atMs, waiting }: Overview) {
  const { deliveries, oldestDueAtMs, oldestUnsettledAtMs, nextSettlementAtMs } = waiting
  const lagMs = nextSettlementAtMs === undefined ? 0 : Math.max(0, atMs - nextSettlementAtMs)
  return create(WaitingSchema, {
    dueDeliveries: deliveries,
    oldestDeliveryDueAt: toTime(oldestDueAtMs),
    oldestUnsettledAt: toTime(oldestUnsettledAtMs),
    nextSettlementAt: toTime(nextSettlementAtMs),
    settlementLagSeconds: BigInt(Math.floor(lagMs / 1_000)),
  })
}

function toBankMessage(state: BankState): BankMessage {
  return create(BankStateSchema, {
    bank: fromBankCode(state.bank),
    connector: state.connector,
    breaker: state.breaker,
    breakerSince: toTime(state.breakerSinceMs),
    accessDenied: state.accessDenied,
    lastNotificationAt: toTime(state.lastNotificationAtMs),
    lastPaymentAt: toTime(state.lastPaymentAtMs),
    pendingOpenings: state.pendingOpenings,
    reconciliationRuns: state.runs.map(toRunMessage),
  })
}

function toHealthMessage({ notReady, standbys, sequencerLagMs, ...health }: Health): HealthMessage {
  return create(HealthSchema, {
    ...health,
    notReady: [...notReady],
    sequencerLagMs: BigInt(sequencerLagMs),
    standbys: standbys.map(({ replayLagMs, ...standby }) => ({
      ...standby,
      replayLagMs: BigInt(Math.round(replayLagMs)),
    })),
    version: packageJson.version,
  })
}
