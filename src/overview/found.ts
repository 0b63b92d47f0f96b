import type { StoredAccount } from '../accounts/account.ts'
import type { searchTokens } from '../auth/tokens.ts'
import { BANK_FACTS, type BankCode } from '../banks/bank.ts'
import type { searchBusinesses } from '../businesses/get-business.ts'
import type { searchKeys } from '../businesses/keys.ts'
import type { findEvent } from '../events/find-event.ts'
import type { findNotification } from '../notifications/held-notifications.ts'
import type { Payout } from '../payouts/payout.ts'
import { netOf, type Settlement } from '../settlement/settlement.ts'
import type {
  ListedConflict,
  StoredTransaction,
  StoredUnmatched,
} from '../transactions/transaction.ts'
import type {
  findDeliveryWithEndpoint,
  findEndpoint,
} from '../webhooks/endpoints/list-endpoints.ts'

/** The kinds of results, as the contract names them. */
export type FoundKind =
  | 'TRANSACTION'
  | 'ACCOUNT'
  | 'EVENT'
  | 'DELIVERY'
  | 'ENDPOINT'
  | 'BUSINESS'
  | 'SETTLEMENT'
  | 'TOKEN'
  | 'KEY'
  | 'NOTIFICATION'
  | 'UNMATCHED_PAYMENT'
  | 'PAYMENT_CONFLICT'
  | 'CUSTOMER'
  | 'PAYOUT'

/** One result, as the contract describes it. */
export interface Found {
  readonly kind: FoundKind
  readonly id: string
  readonly title: string
  readonly subtitle: string
  /** Empty: it belongs to no business. */
  readonly businessId: string
  readonly atMs: number
  readonly amountMinor?: bigint
  readonly status?: string
  readonly bank?: BankCode
  /** Also false for results that have no mode. */
  readonly live: boolean
  readonly reference?: string
}

/** The result of a lookup. */
type Of<Look extends (...args: never[]) => unknown> = NonNullable<Awaited<ReturnType<Look>>>

const atBank = (bank: BankCode, number: string | undefined) =>
  `${number ?? 'no number yet'}, ${BANK_FACTS[bank].name}`

export function fromTransaction(transaction: StoredTransaction): Found {
  const { account, bank, sessionId } = transaction
  return {
    kind: 'TRANSACTION',
    id: transaction.id,
    title: sessionId,
    subtitle: `${account.firstName} ${account.lastName}, ${atBank(bank, account.accountNumber)}`,
    businessId: account.businessId,
    atMs: transaction.paidAtMs,
    amountMinor: transaction.amountMinor,
    status: transaction.status,
    bank,
    live: account.live,
    reference: sessionId,
  }
}

export function fromAccount(account: StoredAccount): Found {
  const { bank, merchantReference } = account
  return {
    kind: 'ACCOUNT',
    id: account.id,
    title: `${account.firstName} ${account.lastName}`,
    subtitle: `${atBank(bank, account.accountNumber)}, ${merchantReference}`,
    businessId: account.businessId,
    atMs: account.createdAtMs,
    status: account.status,
    bank,
    live: account.live,
    reference: account.reference,
  }
}

/** The customer for whom an account was opened. A business identifies customers by their e-mail address. */
export function fromCustomer(account: StoredAccount): Found {
  const { businessId, live, email, firstName, lastName, createdAtMs } = account
  const title = `${firstName} ${lastName}`
  return {
    kind: 'CUSTOMER',
    id: email,
    title,
    subtitle: email,
    businessId,
    live,
    atMs: createdAtMs,
  }
}

export function fromEvent(event: Of<typeof findEvent>): Found {
  const { id, kind, businessId, live, position } = event
  const subtitle = `position ${position}`
  return { kind: 'EVENT', id, title: kind, subtitle, businessId, atMs: event.occurredAtMs, live }
}

export function fromDelivery({ delivery, endpoint }: Of<typeof findDeliveryWithEndpoint>): Found {
  return {
    kind: 'DELIVERY',
    id: delivery.id,
    title: delivery.eventKind,
    subtitle: endpoint.url,
    businessId: endpoint.business.id,
    atMs: delivery.createdAtMs,
    status: delivery.state,
    live: endpoint.live,
    reference: delivery.eventId,
  }
}

export function fromEndpoint(endpoint: Of<typeof findEndpoint>): Found {
  const { disabledReason } = endpoint
  return {
    kind: 'ENDPOINT',
    id: endpoint.id,
    title: endpoint.url,
    subtitle: disabledReason ? `disabled: ${disabledReason}` : '',
    businessId: endpoint.business.id,
    atMs: endpoint.createdAt.getTime(),
    status: disabledReason ? 'DISABLED' : 'ENABLED',
    live: endpoint.live,
  }
}

export function fromBusiness({
  id,
  name,
  alias,
  createdAt,
}: Of<typeof searchBusinesses>[number]): Found {
  const at = { atMs: createdAt.getTime(), live: false }
  return { kind: 'BUSINESS', id, title: name, subtitle: alias, businessId: id, ...at }
}

export function fromSettlement(settlement: Settlement): Found {
  return {
    kind: 'SETTLEMENT',
    id: settlement.id,
    title: `${settlement.transactionCount} payments`,
    subtitle: settlement.idempotencyKey,
    businessId: settlement.businessId,
    atMs: settlement.startedAtMs,
    amountMinor: netOf(settlement),
    status: settlement.status,
    live: settlement.live,
  }
}

export function fromPayout(payout: Payout): Found {
  const { id, bank, reference, destination } = payout
  return {
    kind: 'PAYOUT',
    id,
    title: `${destination.accountName}, ${destination.bankName}`,
    subtitle: `${destination.accountNumber}, ${reference}`,
    businessId: payout.businessId,
    atMs: payout.createdAtMs,
    amountMinor: payout.amountMinor,
    status: payout.status,
    ...(bank && { bank }),
    live: payout.live,
    reference,
  }
}

type Token = Of<typeof searchTokens>[number]

type Key = Of<typeof searchKeys>[number]

const statusOf = ({ revokedAt }: Token | Key) => (revokedAt ? 'REVOKED' : 'ACTIVE')

export function fromToken(token: Token): Found {
  return {
    kind: 'TOKEN',
    id: token.id,
    title: token.name,
    subtitle: token.prefix,
    businessId: '',
    atMs: token.createdAt.getTime(),
    status: statusOf(token),
    live: false,
  }
}

export function fromKey(key: Key): Found {
  return {
    kind: 'KEY',
    id: key.id,
    title: key.prefix,
    subtitle: '',
    businessId: key.business.id,
    atMs: key.createdAt.getTime(),
    status: statusOf(key),
    live: key.live,
  }
}

export function fromNotification(notification: Of<typeof findNotification>): Found {
  const { accountNumber, bank } = notification
  return {
    kind: 'NOTIFICATION',
    id: notification.id,
    title: notification.sessionId || notification.id,
    subtitle: atBank(bank, accountNumber || 'unreadable'),
    businessId: '',
    atMs: notification.receivedAtMs,
    amountMinor: notification.amountMinor,
    status: notification.state,
    bank,
    live: true,
  }
}

export function fromUnmatched(payment: StoredUnmatched): Found {
  const { bank, resolution, payoutId } = payment
  const by = payoutId === undefined ? '' : `; returned by ${payoutId}`
  return {
    kind: 'UNMATCHED_PAYMENT',
    id: payment.id,
    title: payment.sessionId,
    subtitle: `${atBank(bank, payment.accountNumber)}${by}`,
    businessId: '',
    atMs: payment.paidAtMs,
    amountMinor: payment.amountMinor,
    ...(resolution !== undefined && { status: resolution }),
    bank,
    live: true,
  }
}

export function fromConflict(conflict: ListedConflict): Found {
  const { bank, recorded } = conflict
  return {
    kind: 'PAYMENT_CONFLICT',
    id: conflict.id,
    title: conflict.sessionId,
    subtitle: `contradicts ${conflict.transaction}`,
    businessId: recorded.businessId,
    atMs: conflict.createdAt.getTime(),
    amountMinor: conflict.amountMinor,
    bank,
    live: recorded.live,
    reference: conflict.transaction,
  }
}
