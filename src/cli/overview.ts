import type { Command } from 'commander'
import type { BankState, HourFigures } from '../../gen/inflow/overview/v1/figures_pb.ts'
import {
  type GetOverviewResponse,
  GetOverviewResponseSchema,
  OverviewService,
} from '../../gen/inflow/overview/v1/overview_service_pb.ts'
import { ReviewKind } from '../../gen/inflow/overview/v1/review_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { formatAmount } from '../core/money.ts'
import { localTime } from './local-time.ts'
import { enumName } from './options.ts'
import { type Column, fields, table } from './output.ts'
import { printResponse } from './print-response.ts'
import { serviceAction } from './service-action.ts'
import { addOwnServiceOptions } from './verb.ts'

/** Figures of the last 24 hours beside those of the same hours a week before. */
const compared =
  (text: (figures: HourFigures) => string) =>
  ({ total, weekBeforeTotal }: GetOverviewResponse): string =>
    total && weekBeforeTotal ? `${text(total)} (a week before: ${text(weekBeforeTotal)})` : ''

const FIGURES: readonly Column<GetOverviewResponse>[] = [
  { title: 'Payments in 24 h', of: compared(({ payments }) => `${payments}`) },
  { title: 'Amount', of: compared(({ amountMinor }) => formatAmount(amountMinor)) },
  { title: 'Reversals', of: compared(({ reversals }) => `${reversals}`) },
  {
    title: 'Webhooks delivered',
    of: compared(({ delivered, attempts }) => `${delivered} by ${attempts} attempts`),
  },
  { title: 'Webhook delay, p95', of: compared(({ delayP95Ms }) => `${delayP95Ms} ms`) },
  { title: 'Webhooks due', of: ({ waiting }) => `${waiting?.dueDeliveries ?? 0}` },
  {
    title: 'Waiting for review',
    of: ({ review }) =>
      review
        .map(({ kind, count, more }) => `${count}${more ? '+' : ''} ${enumName(kind, ReviewKind)}`)
        .join(', ') || '0',
  },
  { title: 'Oldest unsettled', of: ({ waiting }) => localTime.format(waiting?.oldestUnsettledAt) },
  { title: 'Settles at', of: ({ waiting }) => localTime.format(waiting?.nextSettlementAt) },
  { title: 'PostgreSQL', of: ({ health }) => health?.postgresVersion ?? '' },
  {
    title: 'Database latency',
    of: ({ health }) => (health ? `${health.databaseLatencyMs} ms` : ''),
  },
  { title: 'Sequencer lag', of: ({ health }) => (health ? `${health.sequencerLagMs} ms` : '') },
  { title: 'Not ready', of: ({ health }) => health?.notReady.join('; ') ?? '' },
]

const BANKS: readonly Column<BankState>[] = [
  { title: 'Bank', of: ({ bank }) => enumName(bank, Bank, 'BANK_') },
  { title: 'Connector', of: ({ connector }) => connector },
  { title: 'Breaker', of: ({ breaker }) => breaker },
  { title: 'Access', of: ({ accessDenied }) => (accessDenied ? 'denied' : '') },
  {
    title: 'Last notification',
    of: ({ lastNotificationAt }) => localTime.format(lastNotificationAt),
  },
  { title: 'Last payment', of: ({ lastPaymentAt }) => localTime.format(lastPaymentAt) },
  { title: 'Pending openings', right: true, of: ({ pendingOpenings }) => `${pendingOpenings}` },
]

/** `inflow overview` */
export function overview(noun: Command): void {
  noun
    .option('--business <id>', 'only of this business (default: all)')
    .option('--test', 'the figures of test mode (default: live mode)')
    .addHelpText('after', '\nExample:\n  inflow overview')
  addOwnServiceOptions(noun).action(
    serviceAction<{ business?: string; test?: boolean }>(async (service, options) => {
      const response = await service
        .client(OverviewService)
        .getOverview({ businessId: options.business ?? '', test: options.test ?? false })
      printResponse(options, GetOverviewResponseSchema, response, () => {
        const figures = fields(response, FIGURES)
        return response.banks.length === 0
          ? figures
          : `${figures}\n\n${table(response.banks, BANKS)}`
      })
    }),
  )
}
