import { ConnectError } from '@connectrpc/connect'
import type { Command } from 'commander'
import { BadRequestSchema } from '../../gen/google/rpc/error_details_pb.ts'
import {
  type PayoutBatch,
  PayoutBatchSchema,
  type PayoutItem,
  PayoutItemSchema,
  RefusedItemSchema,
} from '../../gen/inflow/payout/v1/payout_pb.ts'
import {
  type CreatePayoutsResponse,
  CreatePayoutsResponseSchema,
  PayoutService,
} from '../../gen/inflow/payout/v1/payout_service_pb.ts'
import { formatAmount } from '../core/money.ts'
import { columnsOf } from './columns.ts'
import { confirm, YES, type YesOption } from './confirm.ts'
import { readRows } from './import-rows.ts'
import { counted, EXIT, Failure, fields, note, table, visible } from './output.ts'
import { BUSINESS, PAGE, rpc } from './rpc-verb.ts'
import { printResponse, type Service, serviceAction } from './service-action.ts'
import { addVerbs, calling } from './verb.ts'

const BATCH_ID = '<batch-id>  the batch id, pba_…'

const HELP = `
  import: request the payouts of a file as one batch, after you confirm their sum
  ${BUSINESS}
  <file>  CSV with a line of headers, or .jsonl with an object on each line
  --reference <text>!  your own reference of the batch; a repeat with the same file shows the same batch
  --test  in test mode (default: live mode)
  --dry-run  only validate the file
  ${YES}
  Example: payout import salaries.csv --reference salaries-11

  batches: list batches, newest first
  ${BUSINESS}
  ${PAGE}
  Example: payout batches

  batch: show a batch with its refused items
  ${BUSINESS}
  ${BATCH_ID}
  Example: payout batch pba_…

  approve-batch: approve all payouts of a batch that await approval, if another person requested the batch
  ${BUSINESS}
  ${BATCH_ID}
  --note <text>  why
  ${YES}
  Example: payout approve-batch pba_… --note "payroll of November"

  reject-batch: reject all payouts of a batch that await approval, and the items that wait for a name enquiry
  ${BUSINESS}
  ${BATCH_ID}
  --note <text>  why
  ${YES}
  Example: payout reject-batch pba_… --note "the file of October"`

const BATCH = `id, businessId, live, reference, count, sumMinor, requestedBy, createdAt, pendingCount=Names pending,
  refusedCount=Refused, approvalCount=Await approval, approvalSumMinor=Their sum, paidCount=Paid, failedCount=Not paid`

const REFUSED = columnsOf(RefusedItemSchema, 'index, reference, reason, detail')

/** Adds the verbs for batches of payouts. */
export function addBatchVerbs(noun: Command): void {
  addVerbs(noun, HELP, {
    import: calling(importPayouts),
    batches: rpc(PayoutService.method.listBatches, {
      shows:
        'createdAt, reference, count, sumMinor, paidCount=Paid, approvalCount=Await approval, live, id',
    }),
    batch: rpc(PayoutService.method.getBatch, {
      shows: ({ batch, refused }) =>
        [batchText(batch), refused.length === 0 ? '' : `\n${table(refused, REFUSED.list)}`]
          .join('\n')
          .trimEnd(),
      notes: ({ sumInWords }) => sumInWords,
    }),
    'approve-batch': rpc(PayoutService.method.approveBatch, {
      confirms: confirmBatch('approve', 'They are sent.'),
      shows: BATCH,
      notes: ({ count, sumInWords }) => `Approved ${count}: ${sumInWords}.`,
    }),
    'reject-batch': rpc(PayoutService.method.rejectBatch, {
      confirms: confirmBatch('reject', 'They are not sent. Their money is available again.'),
      shows: BATCH,
      notes: ({ count, sumInWords }) => `Rejected ${count}: ${sumInWords}.`,
    }),
  })
}

const batchText = (batch: PayoutBatch | undefined): string =>
  fields(batch, columnsOf(PayoutBatchSchema, BATCH).list)

/** Asks for a confirmation before a batch is decided. The question states the number of payouts and their sum. */
const confirmBatch =
  (word: string, effect: string) =>
  (request: { readonly businessId: string; readonly batchId: string }, service: Service) => ({
    word,
    question: async () => {
      const { businessId, batchId } = request
      const { batch } = await service.client(PayoutService).getBatch({ businessId, batchId })
      const {
        approvalCount = 0,
        approvalSumMinor = 0n,
        pendingCount = 0,
        reference = batchId,
      } = batch ?? {}
      const sum = `${formatAmount(approvalSumMinor)} NGN`
      const unnamed =
        pendingCount > 0 ? `, and ${counted(pendingCount, 'item')} without a name` : ''
      return `${visible(reference)}: ${counted(approvalCount, 'payout')} of ${sum} in all${unnamed}.\n${effect}`
    },
  })

interface ImportOptions extends YesOption {
  readonly business?: string
  readonly reference: string
  readonly test?: boolean
  readonly dryRun?: boolean
}

/** Validates the whole file at the service, asks the operator to confirm the sum, and requests the batch. */
const importPayouts = serviceAction<ImportOptions>(async (service, options, file) => {
  const { reference, test, dryRun = false } = options
  const client = service.client(PayoutService)
  const { items, lines } = await readItems(file)
  const request = { businessId: service.business(options.business), reference, items, live: !test }
  const call = (validateOnly: boolean) =>
    client.createPayouts({ ...request, validateOnly }).catch((error: unknown) => {
      throw withLines(error, lines)
    })
  const show = (response: CreatePayoutsResponse) => {
    printResponse(options, CreatePayoutsResponseSchema, response, () => batchText(response.batch))
    note(response.sumInWords)
  }
  const validated = await call(true)
  if (dryRun) return show(validated)
  const sum = `${formatAmount(validated.batch?.sumMinor ?? 0n)} NGN`
  await confirm(options, {
    word: 'pay',
    question: `Pays ${counted(items.length, 'beneficiary account')}: ${sum}, ${validated.sumInWords}.`,
  })
  const response = await call(false)
  show(response)
  if (response.replayed) note('The batch was requested before.')
})

/** The most items of a batch. */
const ITEMS_MAX = 5_000

const FAULTS_SHOWN_MAX = 100

/** @throws Failure naming the lines with faults */
async function readItems(file: string) {
  const items: PayoutItem[] = []
  const lines: number[] = []
  const faults: string[] = []
  for await (const { line, row, faults: found } of readRows(PayoutItemSchema, file)) {
    for (const { field, message } of found) faults.push(`line ${line}: ${field}: ${message}`)
    if (row !== undefined) {
      items.push(row)
      lines.push(line)
    }
    if (items.length > ITEMS_MAX) {
      throw new Failure(EXIT.usage, `a batch has at most ${ITEMS_MAX} payouts: split the file`)
    }
  }
  if (faults.length > 0) {
    throw new Failure(EXIT.usage, 'nothing was requested', faults.slice(0, FAULTS_SHOWN_MAX))
  }
  if (items.length === 0) throw new Failure(EXIT.usage, 'the file has no payouts')
  return { items, lines }
}

/** Replaces the item indexes in the faults of the service by line numbers of the file. */
function withLines(error: unknown, lines: readonly number[]): unknown {
  const violations = ConnectError.from(error)
    .findDetails(BadRequestSchema)
    .flatMap((detail) => detail.fieldViolations)
    .filter(({ field }) => /^items\[\d+\]/.test(field))
  if (violations.length === 0) return error
  const texts = violations.map(({ field, description }) => {
    const [, index = '', , name = ''] = /^items\[(\d+)\](\.(.*))?$/.exec(field) ?? []
    return `line ${lines[Number(index)]}: ${name}${name && ': '}${description}`
  })
  return new Failure(EXIT.refused, 'nothing was requested', texts.slice(0, FAULTS_SHOWN_MAX))
}
