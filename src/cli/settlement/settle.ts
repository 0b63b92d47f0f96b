import type { Command } from 'commander'
import {
  type Settlement,
  SettlementStatus,
} from '../../../gen/inflow/settlement/v1/settlement_pb.ts'
import {
  ListSettlementsResponseSchema,
  type PreviewSettlementResponse,
  PreviewSettlementResponseSchema,
  SettlementService,
  SettleResponseSchema,
} from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { formatAmount } from '../../core/money.ts'
import { localTime } from '../local-time.ts'
import {
  addBusinessOption,
  addPageOptions,
  enumName,
  notePage,
  type PageOptions,
} from '../options.ts'
import { type Column, fields, note, table } from '../output.ts'
import { printResponse } from '../print-response.ts'
import { serviceAction } from '../service-action.ts'
import { addServiceOptions, addVerb } from '../verb.ts'
import { TERMS_OPTIONS, terms } from './settlement-terms.ts'

const ROW: readonly Column<Settlement>[] = [
  { title: 'Started at', of: ({ startedAt }) => localTime.format(startedAt) },
  { title: 'Business', of: ({ businessId }) => businessId },
  { title: 'Mode', of: ({ live }) => (live ? 'live' : 'test') },
  { title: 'Status', of: ({ status }) => enumName(status, SettlementStatus) },
  { title: 'Count', right: true, of: ({ transactionCount }) => `${transactionCount}` },
  { title: 'Gross', right: true, of: ({ grossMinor }) => formatAmount(grossMinor) },
  { title: 'Fees', right: true, of: ({ feesMinor }) => formatAmount(feesMinor) },
  { title: 'Net', right: true, of: ({ netMinor }) => formatAmount(netMinor) },
  { title: 'Recorded before', of: ({ cutOffAt }) => localTime.format(cutOffAt) },
  { title: 'Id', of: ({ id }) => id },
]

const PREVIEW: readonly Column<PreviewSettlementResponse>[] = [
  { title: 'Transactions', of: ({ transactionCount }) => `${transactionCount}` },
  { title: 'Gross', of: ({ grossMinor }) => formatAmount(grossMinor) },
  { title: 'Fees', of: ({ feesMinor }) => formatAmount(feesMinor) },
  { title: 'Net', of: ({ netMinor }) => formatAmount(netMinor) },
  { title: 'Recorded before', of: ({ cutOffAt }) => localTime.format(cutOffAt) },
  { title: 'Next is due at', of: ({ nextSettlesAt }) => localTime.format(nextSettlesAt) },
]

/** `inflow settle` */
export function settle(noun: Command): void {
  addVerb(noun, 'run', {
    summary: 'settle what is due, of one business or of all',
    example: 'settle run --business biz_… --request-id november-20',
  })
    .option('--business <id>', 'this business only (default: all that are due)')
    .option('--request-id <id>', 'your id of this run: a repeat goes on with it, or shows it again')
    .option('--force', 'settle all that was received, whatever the schedule')
    .option('--test', 'in test mode')
    .action(run)
  addBusinessOption(
    addVerb(noun, 'preview', {
      summary: 'show what settling a business now would come to',
      example: 'settle preview',
    }),
  )
    .option('--force', 'all that was received, whatever the schedule')
    .option('--test', 'in test mode')
    .action(preview)
  addPageOptions(
    addVerb(noun, 'list', {
      summary: 'list settlements, the latest first',
      example: 'settle list --limit 20',
    }).option('--business <id>', 'of this business only (default: of all)'),
  ).action(list)
  const setting = addBusinessOption(
    addVerb(noun, 'terms', {
      summary: 'show when a business is settled and what it pays, or set it with --schedule',
      example: 'settle terms --schedule working-days --days 1 --cut-off 09:00 --fee-percent 1.5',
    }),
  )
  for (const option of TERMS_OPTIONS) setting.addOption(option)
  setting.action(terms)
  addServiceOptions(noun)
}

interface RunOptions {
  readonly business?: string
  readonly requestId?: string
  readonly force?: boolean
  readonly test?: boolean
}

/** One call works for seconds; it is repeated with its request id until everything is settled. */
const run = serviceAction<RunOptions>(async (service, options) => {
  const client = service.client(SettlementService)
  const { business: businessId = '', force = false, test = false } = options
  let requestId = options.requestId ?? ''
  for (;;) {
    const response = await client.settle({ businessId, requestId, force, test })
    if (response.completed) {
      printResponse(options, SettleResponseSchema, response, () => table(response.settlements, ROW))
      return
    }
    requestId = response.requestId
    note(progress(response.settlements))
  }
})

/** "biz_…: 120,000 settled, 12 %" of what runs. */
function progress(settlements: readonly Settlement[]): string {
  const running = settlements.find(({ status }) => status === SettlementStatus.RUNNING)
  const done = settlements.length - (running ? 1 : 0)
  if (running === undefined) return `${done} businesses settled; going on …`
  const count = running.transactionCount.toLocaleString('en')
  return `${running.businessId}: ${count} transactions settled, ${running.percentDone} %; going on …`
}

const preview = serviceAction<{ business?: string; force?: boolean; test?: boolean }>(
  async (service, options) => {
    const businessId = service.business(options.business)
    const response = await service.client(SettlementService).previewSettlement({
      businessId,
      force: options.force ?? false,
      test: options.test ?? false,
    })
    printResponse(options, PreviewSettlementResponseSchema, response, () =>
      fields(response, PREVIEW),
    )
  },
)

const list = serviceAction<PageOptions & { business?: string }>(async (service, options) => {
  const response = await service.client(SettlementService).listSettlements({
    businessId: options.business ?? '',
    pageSize: options.limit ?? 0,
    pageToken: options.pageToken ?? '',
  })
  printResponse(options, ListSettlementsResponseSchema, response, () =>
    table(response.settlements, ROW),
  )
  notePage(response)
})
