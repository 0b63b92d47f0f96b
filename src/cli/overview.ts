import type { Command } from 'commander'
import { BankStateSchema, type HourFigures } from '../../gen/inflow/overview/v1/figures_pb.ts'
import {
  type GetOverviewResponse,
  OverviewService,
} from '../../gen/inflow/overview/v1/overview_service_pb.ts'
import {
  type ReviewCount,
  ReviewItemSchema,
  ReviewKindSchema,
} from '../../gen/inflow/overview/v1/review_pb.ts'
import { ResultKindSchema } from '../../gen/inflow/overview/v1/search_pb.ts'
import { PayoutService } from '../../gen/inflow/payout/v1/payout_service_pb.ts'
import { BankSchema } from '../../gen/inflow/type/v1/bank_pb.ts'
import { formatAmount } from '../core/money.ts'
import { columnsOf } from './columns.ts'
import { enumName, enumRule, localTime } from './options.ts'
import { type Column, fields, note, table } from './output.ts'
import { MODE, PAGE, rpc } from './rpc-verb.ts'
import type { Service } from './service-action.ts'
import { addVerbs, describeNoun } from './verb.ts'

/** Columns that compare the last 24 hours with the same hours of the previous week. */
const compared =
  (text: (figures: HourFigures) => string) =>
  ({ total, weekBeforeTotal }: GetOverviewResponse): string =>
    total && weekBeforeTotal ? `${text(total)} (a week before: ${text(weekBeforeTotal)})` : ''

/** "3 HELD_NOTIFICATION"; "100+ UNMATCHED_PAYMENT" if there are more. */
const countText = ({ kind, count, more }: ReviewCount) =>
  `${count}${more ? '+' : ''} ${enumName(ReviewKindSchema, kind)}`

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
    of: ({ review: counts }) => counts.map(countText).join(', ') || '0',
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

const BANKS = columnsOf(
  BankStateSchema,
  `bank, connector, breaker, Access, lastNotificationAt=Last notification,
  lastPaymentAt=Last payment, pendingOpenings`,
  { Access: ({ accessDenied }) => (accessDenied ? 'denied' : '') },
)

const OVERVIEW_HELP = `
  --business <id>  only of this business (default: all)
  --test  the figures of test mode (default: live mode)
  Example: overview`

export function overview(noun: Command): void {
  const verb = rpc(OverviewService.method.getOverview, {
    async completes(response, service, { businessId }) {
      await notePauses(service, businessId)
      return response
    },
    shows(response) {
      const figures = fields(response, FIGURES)
      const { banks } = response
      return banks.length === 0 ? figures : `${figures}\n\n${table(banks, BANKS.list)}`
    },
  })
  describeNoun(noun, verb, OVERVIEW_HELP)
}

/** Prints which payouts are paused, so that operators do not overlook it. */
async function notePauses(service: Service, businessId: string): Promise<void> {
  const { pauses } = await service.client(PayoutService).listPauses({ businessId })
  for (const pause of pauses) {
    const whose = pause.businessId ? `of ${pause.businessId}` : ''
    const through = pause.bank ? `through ${enumName(BankSchema, pause.bank)}` : ''
    const which = whose || through || 'of all businesses'
    const since = localTime.format(pause.pausedAt)
    note(`Payouts ${which} are paused since ${since} by ${pause.pausedBy}: ${pause.reason}`)
  }
}

const SEARCH_HELP = `
  ${MODE}
  <text>  an id, a reference, an account number, an e-mail address, a name, …
  --business <id>  only results of this business
  Example: search 120001261120100000123456789012`

export function search(noun: Command): void {
  const verb = rpc(OverviewService.method.search, {
    shows: 'kind, id, title, subtitle=About, at, amountMinor?, status, businessId',
    notes({ more }) {
      const kinds = more.map((kind) => enumName(ResultKindSchema, kind)).join(', ')
      return more.length === 0
        ? undefined
        : `There are more results of these kinds: ${kinds}. Name a business, or a longer text.`
    },
  })
  describeNoun(noun, verb, SEARCH_HELP)
}

const REVIEW_HELP = `
  update: assign an item, hand it over or release it, and add a note
  <item-id>  the id of the item, as list shows it
  --kind <kind>!  the kind of the item
  --test  an item of test mode
  --assignee <name>  the person who handles the item; "" removes the assignee
  --note <text>  a note about the item; "" removes the note
  Example: review update unm_… --kind UNMATCHED_PAYMENT --assignee Ada --note "the customer was asked"

  list: list the items that wait for a decision, oldest first
  ${MODE}
  --business <id>  only of this business
  --kind <kind>  only of this kind
  ${PAGE}
  Example: review list --kind UNMATCHED_PAYMENT`

export function review(noun: Command): void {
  addVerbs(noun, REVIEW_HELP, {
    update: rpc(OverviewService.method.updateReviewItem, {
      shows: 'assignee, note, notedAt, notedBy',
    }),
    list: rpc(OverviewService.method.listReviewItems, {
      flags: { kind: { field: 'kinds', ...enumRule(ReviewKindSchema) } },
      shows: columnsOf(
        ReviewItemSchema,
        `kind, since, id, amountMinor?, expectedAmountMinor?=Expected, businessId,
          account.customerName=Customer, text=What, assignee, note, Commands`,
        { Commands: ({ actions }) => actions.map(commandOf).join(', ') },
      ),
      notes: ({ counts }) =>
        counts.length === 0 ? undefined : `Waiting: ${counts.map(countText).join(', ')}`,
    }),
  })
}

/** The commands that take the id of an item, by method. */
export const COMMANDS: Readonly<Record<string, string>> = {
  AssignUnmatchedPayment: 'unmatched assign',
  RefundUnmatchedPayment: 'refund unmatched',
  ReturnUnmatchedPayment: 'unmatched return',
  RetryNotification: 'notification retry',
  ResolveNotification: 'notification resolve',
  ResolvePaymentConflict: 'conflict resolve',
  ResolveAccount: 'account resolve',
  AcceptPayment: 'transaction accept',
  ReturnPayment: 'transaction return',
  CompleteReturn: 'transaction complete-return',
  UpdateEndpoint: 'webhook update',
  DeleteEndpoint: 'webhook remove',
  Settle: 'settle run',
  ApprovePayout: 'payout approve',
  RejectPayout: 'payout reject',
  ResolvePayout: 'payout resolve',
  ResolvePayoutDiscrepancy: 'payout resolve-discrepancy',
}

/** The command of a method; the name of the method if only a newer version knows the command. */
function commandOf(action: string): string {
  const method = action.slice(action.indexOf('/') + 1)
  return COMMANDS[method] ?? method
}
