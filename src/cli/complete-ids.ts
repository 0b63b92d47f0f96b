import type { DescMessage, DescMethodUnary, MessageShape } from '@bufbuild/protobuf'
import type { Argument, Command, Option } from 'commander'
import { AccountStatus } from '../../gen/inflow/account/v1/account_pb.ts'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { EventService } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { NotificationService } from '../../gen/inflow/notification/v1/notification_service_pb.ts'
import { OverviewService } from '../../gen/inflow/overview/v1/overview_service_pb.ts'
import { PayoutService } from '../../gen/inflow/payout/v1/payout_service_pb.ts'
import { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { SessionService } from '../../gen/inflow/session/v1/session_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { HeldPaymentService } from '../../gen/inflow/transaction/v1/held_payment_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { columnsOf } from './columns.ts'
import { visible } from './output.ts'
import { takesDemoBusiness } from './rpc-verb.ts'
import { type Service, serviceAction } from './service-action.ts'

/** An id that completes a word, with a description of its object. */
interface CompletedId {
  readonly id: string
  readonly summary: string
}

/**
 * Lists the latest ids that may follow the words of a command line, with the service and the credential that the
 * command itself would use. Returns no ids after any error, because a shell shows no errors while it completes a word.
 *
 * @param words the words before the completed word, without "inflow"
 */
export async function completeIds(
  program: Command,
  words: readonly string[],
): Promise<CompletedId[]> {
  try {
    // Bash splits --business=biz_1 into three words.
    const { command, found } = findPlace(
      program,
      words.filter((word) => word !== '='),
    )
    if (found === undefined) return []
    let ids: CompletedId[] = []
    const action = serviceAction<{ readonly business?: string }>(async (service, { business }) => {
      // Caught here, because `callService` would first search for the reason, which takes longer.
      ids = await latestIds(service, command, found, business).catch(() => [])
    })
    await action(command)
    return ids
  } catch {
    return []
  }
}

/** The list with the ids for an operand or the value of an option; undefined: the value is not an id. */
export function listOf(place: Argument | Option): IdList | undefined {
  const key = nameOf(place).replace(/-id$/, '')
  return Object.hasOwn(LISTS, key) ? LISTS[key] : undefined
}

/** Returns "business" of `--business <ids...>`, "reference" of `--account <reference>`, and the name of an operand. */
function nameOf(place: Argument | Option): string {
  if (!('flags' in place)) return place.name()
  const [, value = ''] = /<([a-z-]+?)(?:\.\.\.)?>/.exec(place.flags) ?? []
  return /^ids?$/.test(value) ? place.name() : value
}

interface IdList {
  readonly method: DescMethodUnary
  /** The fields that identify a row; the first value that needs no quotes in a shell is used. */
  readonly ids: string
  readonly summary: string
  readonly request: object
  /** The list requires a business. */
  readonly needsBusiness?: boolean
  /** The list requires a business or a mode. */
  readonly needsMode?: boolean
}

const list = (
  method: DescMethodUnary,
  ids: string,
  summary: string,
  request: object = {},
): IdList => ({ method, ids, summary, request })

const BUSINESSES = list(BusinessService.method.listBusinesses, 'id', 'name')
const TOKENS = list(AdminService.method.listTokens, 'id', 'name, description')
const PAYMENT = 'amountMinor, status, payer.name, paidAt'
const REPORTED = 'bank, accountNumber, amountMinor'

/** The lists by the name of an operand without "-id", or of an option whose value is an `<id>`. */
const LISTS: Readonly<Record<string, IdList>> = {
  'account-number': list(
    AccountService.method.listAccounts,
    'accountNumber',
    'accountName, bank, merchantReference',
    { status: AccountStatus.ACTIVE },
  ),
  actor: TOKENS,
  batch: {
    ...list(PayoutService.method.listBatches, 'id', 'reference, count, sumMinor'),
    needsBusiness: true,
  },
  business: BUSINESSES,
  conflict: list(ReconciliationService.method.listPaymentConflicts, 'id', REPORTED),
  'console-session': list(SessionService.method.listSessions, 'id', 'name, address', {
    activeOnly: true,
  }),
  delivery: {
    ...list(
      WebhookService.method.listDeliveries,
      'id',
      'status, eventKind, payment.amountMinor?, payment.customerName',
    ),
    needsBusiness: true,
  },
  discrepancy: list(
    PayoutService.method.listPayoutDiscrepancies,
    'id',
    'kind, bank, amountMinor, accountNumber',
  ),
  endpoint: list(WebhookService.method.listEndpoints, 'id', 'url, status, description'),
  event: list(EventService.method.listEvents, 'id', 'kind, occurredAt', { newestFirst: true }),
  'held-payment': list(
    HeldPaymentService.method.listHeldPayments,
    'id',
    'amountMinor, variance, payer.name',
  ),
  item: list(OverviewService.method.listReviewItems, 'id', 'kind, amountMinor?, text'),
  key: {
    ...list(BusinessService.method.listKeys, 'id', 'prefix, live, scopes'),
    needsBusiness: true,
  },
  link: list(SessionService.method.listPortalLinks, 'id', 'description, businessId', {
    activeOnly: true,
  }),
  notification: list(NotificationService.method.listHeldNotifications, 'id', `${REPORTED}, cause`),
  payout: list(
    PayoutService.method.listPayouts,
    'id',
    'amountMinor, status, beneficiary.accountName',
  ),
  recipient: BUSINESSES,
  reference: list(
    AccountService.method.listAccounts,
    'merchantReference, reference',
    'accountName, bank, accountNumber, status',
  ),
  session: {
    ...list(TransactionService.method.listTransactions, 'sessionId', PAYMENT),
    needsMode: true,
  },
  settlement: list(SettlementService.method.listSettlements, 'id', 'netMinor, status, startedAt'),
  token: { ...TOKENS, request: { active: true } },
  transaction: {
    ...list(TransactionService.method.listTransactions, 'id', PAYMENT),
    needsMode: true,
  },
  'unmatched-payment': list(
    ReconciliationService.method.listUnmatchedPayments,
    'id',
    `${REPORTED}, payer.name`,
  ),
}

/** Returns the command of the words, with the options that the words state, and the list for the next word. */
function findPlace(program: Command, words: readonly string[]) {
  let command = program
  const rest = [...words]
  for (;;) {
    const below = command.commands.find((each) => each.name() === rest[0])
    if (below === undefined) break
    command = below
    rest.shift()
  }
  const last = rest.at(-1) ?? ''
  const option = command.options.find(
    ({ short, long, required }) => required && (short === last || long === last),
  )
  if (option) rest.pop()
  const { operands } = command.parseOptions(rest)
  const place = option ?? command.registeredArguments[operands.length]
  return { command, found: place && listOf(place) }
}

/** The most ids that are offered. */
const IDS_MAX = 50

/** The most businesses whose lists are read if a list requires a business and the command names none. */
const BUSINESSES_MAX = 10

/** How long the service may take to respond, so that the shell waits for less than two seconds. */
const TIMEOUT_MS = 1_400

async function latestIds(
  service: Service,
  command: Command,
  found: IdList,
  given: string | undefined,
): Promise<CompletedId[]> {
  const signal = AbortSignal.timeout(TIMEOUT_MS)
  const businesses = await findBusinesses(service, command, found, given, signal)
  const read = (businessId: string) => readIds(service, found, businessId, signal)
  const ids = (await Promise.all(businesses.map(read))).flat()
  return ids.slice(0, IDS_MAX)
}

/** Returns the businesses whose ids are listed; an empty id stands for all. */
async function findBusinesses(
  service: Service,
  command: Command,
  { method, needsBusiness }: IdList,
  given: string | undefined,
  signal: AbortSignal,
): Promise<string[]> {
  if (!method.input.fields.some(({ localName }) => localName === 'businessId')) return ['']
  if (given || command.options.some(takesDemoBusiness)) return [service.business(given)]
  if (!needsBusiness) return ['']
  const client = service.client(BusinessService)
  const { businesses } = await client.listBusinesses({ pageSize: BUSINESSES_MAX }, { signal })
  return businesses.map(({ id }) => id)
}

type Row = MessageShape<DescMessage>

async function readIds(
  service: Service,
  { method, ids, summary, request, needsMode }: IdList,
  businessId: string,
  signal: AbortSignal,
): Promise<CompletedId[]> {
  const rows = method.output.fields.find(({ fieldKind }) => fieldKind === 'list')
  if (!rows?.message) return []
  const page = { pageSize: IDS_MAX, limit: IDS_MAX, businessId, ...request }
  const mode = needsMode && businessId === '' ? { live: true } : {}
  const response: object = await service.call(method, { ...page, ...mode }, { signal })
  const found = (response as Readonly<Record<string, Row[]>>)[rows.localName] ?? []
  const [names, texts] = [columnsOf(rows.message, ids).list, columnsOf(rows.message, summary).list]
  return found.flatMap((row) => {
    const id = names.map((column) => column.of(row)).find((text) => UNQUOTED.test(text))
    const about = texts.map((column) => visible(column.of(row))).filter((text) => text !== '')
    return id === undefined ? [] : [{ id, summary: about.join(', ') }]
  })
}

/** Texts that need no quotes. Businesses choose references, so a text such as `$(…)` must not reach a shell. */
const UNQUOTED = /^[\w./][\w./-]*$/
