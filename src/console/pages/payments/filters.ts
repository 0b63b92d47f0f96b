import { timestampFromMs, timestampMs } from '@bufbuild/protobuf/wkt'
import type {
  HoldState,
  Transaction,
  TransactionStatus,
  Variance,
} from '../../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { Bank } from '../../../../gen/inflow/type/v1/bank_pb.ts'
import { bankOf } from '../../format/banks.ts'
import { parseNaira } from '../../format/money.ts'
import { byCode, HOLD_STATES, STATUSES, VARIANCES } from '../../format/payments.ts'
import type { ViewScope } from '../../session/view-scope.ts'
import { readTime } from '../../ui/controls/filters.tsx'

/** What the list shows, as the URL says. */
export interface Filters extends ViewScope {
  readonly status: TransactionStatus | undefined
  readonly variance: Variance | undefined
  readonly holdState: HoldState | undefined
  readonly bank: Bank
  /** The reference of an account; only together with a business. */
  readonly reference: string
  /** 0n: no limit. */
  readonly fromMinor: bigint
  readonly toMinor: bigint
  readonly fromMs: number | undefined
  readonly toMs: number | undefined
}

/** Reads the filters of a URL; what is not one is left out. */
export function readFilters(params: URLSearchParams, scope: ViewScope): Filters {
  const text = (name: string) => params.get(name) ?? ''
  return {
    ...scope,
    status: byCode(STATUSES, text('status')),
    variance: byCode(VARIANCES, text('variance')),
    holdState: byCode(HOLD_STATES, text('hold')),
    bank: bankOf(text('bank')),
    reference: scope.businessId === '' ? '' : text('account'),
    fromMinor: parseNaira(text('min')) ?? 0n,
    toMinor: parseNaira(text('max')) ?? 0n,
    fromMs: readTime(text('from')),
    toMs: readTime(text('to')),
  }
}

/** The request of the first page. */
export function requestOf(filters: Filters, pageSize: number) {
  const { fromMs, toMs, status, variance, holdState } = filters
  const from = fromMs === undefined ? undefined : timestampFromMs(fromMs)
  const to = toMs === undefined ? undefined : timestampFromMs(toMs)
  const isOfAll = filters.businessId === ''
  return {
    businessId: filters.businessId,
    live: filters.live,
    reference: filters.reference,
    bank: filters.bank,
    statuses: status === undefined ? [] : [status],
    variances: variance === undefined ? [] : [variance],
    holdStates: holdState === undefined ? [] : [holdState],
    amountFromMinor: filters.fromMinor,
    // An upper limit below the lower one would be refused.
    amountToMinor: filters.toMinor < filters.fromMinor ? 0n : filters.toMinor,
    ...(from && (isOfAll ? { recordedFrom: from } : { from })),
    ...(to && (isOfAll ? { recordedTo: to } : { to })),
    pageSize,
    pageToken: '',
  }
}

/** Whether a payment that arrives belongs into the list. */
export function matches(payment: Transaction, filters: Filters): boolean {
  const { status, variance, holdState, bank, fromMinor, toMinor } = filters
  if (payment.live !== filters.live) return false
  if (filters.businessId !== '' && payment.businessId !== filters.businessId) return false
  if (status !== undefined && payment.status !== status) return false
  if (variance !== undefined && payment.variance !== variance) return false
  if (holdState !== undefined && payment.holdState !== holdState) return false
  if (bank !== Bank.BANK_UNSPECIFIED && payment.bank !== bank) return false
  if (payment.amountMinor < fromMinor) return false
  if (toMinor >= fromMinor && toMinor > 0n && payment.amountMinor > toMinor) return false
  return isOfAccount(payment, filters.reference) && isInTime(payment, filters)
}

function isOfAccount(payment: Transaction, reference: string): boolean {
  if (reference === '') return true
  return payment.accountReference === reference || payment.merchantReference === reference
}

function isInTime(payment: Transaction, { businessId, fromMs, toMs }: Filters): boolean {
  // A list of all businesses is limited by when payments were recorded.
  const at = businessId === '' ? (payment.recordedAt ?? payment.paidAt) : payment.paidAt
  if (at === undefined) return true
  const ms = timestampMs(at)
  return ms >= (fromMs ?? 0) && ms < (toMs ?? Number.POSITIVE_INFINITY)
}
