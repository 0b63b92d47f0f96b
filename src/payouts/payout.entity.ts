import { defineEntity, p } from '@mikro-orm/core'
import { BusinessEntity } from '../businesses/business.entity.ts'
import type { PayoutPurpose, PayoutStatus, Source } from './payout.ts'
import type { FeeBand, SettleTo } from './policy.ts'

const FINAL = "status in ('PAID', 'FAILED', 'REJECTED', 'CANCELLED', 'EXPIRED', 'RETURNED')"

/**
 * One payout. `nextAt` is when it is next sent, looked up at its bank, or expires. `claims` counts the claims of instances,
 * so that an instance whose claim has been superseded changes nothing.
 */
export const PayoutEntity = defineEntity({
  name: 'Payout',
  tableName: 'payout',
  properties: {
    id: p.text().collation('C').primary(),
    /** Null: the payout returns an unmatched payment, which belongs to no business. */
    business: p.manyToOne(BusinessEntity).nullable().deleteRule('no action'),
    live: p.boolean(),
    /** The caller chose it. */
    reference: p.text(),
    purpose: p.text().$type<PayoutPurpose>(),
    status: p.text().$type<PayoutStatus>(),
    /** The ledger account from which the payout is paid. */
    source: p.text().$type<Source>(),
    amountMinor: p.bigint(),
    feeMinor: p.bigint(),
    dutyMinor: p.bigint(),
    bankCode: p.text(),
    bankName: p.text(),
    accountNumber: p.text(),
    accountName: p.text(),
    narration: p.text(),
    /** The bank that answered the name enquiry; `enquiryReference` is the reference that its transfers require. */
    resolvedBank: p.text().nullable(),
    enquiryReference: p.text(),
    /** The bank that sends the payout. */
    bank: p.text().nullable(),
    /** Our reference at that bank; it never changes. */
    bankReference: p.text(),
    routing: p.text().default(''),
    sessionId: p.text().default(''),
    failureReason: p.text().default(''),
    detail: p.text().default(''),
    requestedBy: p.text(),
    approvalReason: p.text(),
    decidedBy: p.text().default(''),
    decisionNote: p.text().default(''),
    createdAt: p.datetime(3),
    expiresAt: p.datetime(3).nullable(),
    nextAt: p.datetime(3).nullable(),
    submittedAt: p.datetime(3).nullable(),
    completedAt: p.datetime(3).nullable(),
    claims: p.integer().default(0),
    /** How often the bank was asked without a final answer. */
    attempts: p.integer().default(0),
    // Not a relation: a partition that a foreign key references cannot be detached.
    transactionId: p.text().collation('C').nullable(),
    refundedSessionId: p.text().default(''),
    unmatchedPaymentId: p.text().nullable(),
    /** The bank at which the unmatched payment arrived. */
    unmatchedBank: p.text().nullable(),
    settlementId: p.text().nullable(),
    batchId: p.text().collation('C').nullable(),
    /** See PayoutSender. */
    generation: p.integer(),
  },
  uniques: [{ properties: ['business', 'live', 'reference'] }, { properties: ['bankReference'] }],
  indexes: [
    {
      name: 'payout_business_id_live_id_index',
      properties: ['business', 'live', 'id'],
      include: ['status', 'purpose'],
    },
    { name: 'payout_live_id_index', properties: ['live', 'id'], include: ['status', 'purpose'] },
    { name: 'payout_due_index', properties: ['nextAt'], where: 'next_at is not null' },
    {
      name: 'payout_open_index',
      properties: ['business', 'live', 'id'],
      include: ['amountMinor', 'feeMinor', 'dutyMinor', 'bank'],
      where: 'completed_at is null',
    },
    { name: 'payout_open_id_index', properties: ['live', 'id'], where: 'completed_at is null' },
    {
      name: 'payout_in_progress_index',
      properties: ['bank', 'live'],
      include: ['amountMinor'],
      where: "status in ('SUBMITTING', 'UNKNOWN')",
    },
    {
      name: 'payout_transaction_index',
      properties: ['transactionId', 'id'],
      where: 'transaction_id is not null',
    },
    {
      name: 'payout_unmatched_unique',
      expression: (columns, _table, indexName) =>
        `create unique index ${indexName} on "payout" (${columns.refundedSessionId}, ${columns.unmatchedBank}) where unmatched_payment_id is not null and status not in ('FAILED', 'REJECTED', 'CANCELLED', 'EXPIRED', 'RETURNED')`,
    },
    {
      name: 'payout_unmatched_index',
      properties: ['refundedSessionId', 'unmatchedBank', 'id'],
      where: 'unmatched_payment_id is not null',
    },
    {
      name: 'payout_settlement_index',
      properties: ['settlementId'],
      where: 'settlement_id is not null',
    },
    { name: 'payout_batch_index', properties: ['batchId', 'id'], where: 'batch_id is not null' },
    { name: 'payout_account_index', properties: ['accountNumber', 'id'] },
    { name: 'payout_reference_index', properties: ['reference'] },
    { name: 'payout_session_index', properties: ['sessionId'], where: "session_id <> ''" },
    { name: 'payout_approval_index', properties: ['id'], where: "status = 'PENDING_APPROVAL'" },
    {
      name: 'payout_unclear_index',
      properties: ['id'],
      where: "status in ('UNKNOWN', 'MANUAL_REVIEW')",
    },
    {
      name: 'payout_paid_index',
      properties: ['bank', 'live', 'completedAt'],
      where: "status = 'PAID'",
    },
  ],
  checks: [
    {
      name: 'payout_amount',
      expression: 'amount_minor > 0 and fee_minor >= 0 and duty_minor >= 0',
    },
    {
      name: 'payout_purpose',
      expression:
        "purpose in ('PAYOUT', 'REFUND', 'SETTLEMENT') and (purpose = 'REFUND') = (num_nonnulls(transaction_id, unmatched_payment_id) = 1) and (purpose = 'SETTLEMENT') = (settlement_id is not null)",
    },
    {
      name: 'payout_source',
      expression: "source in ('available', 'pending', 'held', 'unmatched')",
    },
    {
      name: 'payout_unmatched',
      expression:
        "case when source = 'unmatched' then live and business_id is null and unmatched_payment_id is not null and unmatched_bank is not null and refunded_session_id <> '' and fee_minor = 0 and duty_minor = 0 and batch_id is null else business_id is not null and unmatched_payment_id is null and unmatched_bank is null end",
    },
    {
      name: 'payout_status',
      expression:
        "status in ('PENDING_APPROVAL', 'APPROVED', 'SUBMITTING', 'UNKNOWN', 'MANUAL_REVIEW', 'PAID', 'FAILED', 'REJECTED', 'CANCELLED', 'EXPIRED', 'RETURNED')",
    },
    { name: 'payout_completed', expression: `(completed_at is not null) = (${FINAL})` },
    {
      name: 'payout_submitted',
      expression:
        "(submitted_at is null) = (bank is null) and (status in ('PENDING_APPROVAL', 'APPROVED', 'FAILED', 'REJECTED', 'CANCELLED', 'EXPIRED') or bank is not null)",
    },
  ],
})

/** When this copy of the database began to send payouts: one row, which `payout_generation` updates. */
export const PayoutSenderEntity = defineEntity({
  name: 'PayoutSender',
  tableName: 'payout_sender',
  properties: {
    id: p.integer().primary().autoincrement(false),
    generation: p.integer(),
    epoch: p.integer(),
    systemIdentifier: p.bigint().nullable(),
    timeline: p.integer().nullable(),
    beganAt: p.datetime(3).nullable(),
    aliveAt: p.datetime(3).nullable(),
    repeatsUntil: p.datetime(3).nullable(),
    silentSince: p.datetime(3).nullable(),
  },
  checks: [{ name: 'payout_sender_one_row', expression: 'id = 1' }],
})

/** The history of a payout, in order. */
export const PayoutStepEntity = defineEntity({
  name: 'PayoutStep',
  tableName: 'payout_step',
  properties: {
    payout: p.manyToOne(PayoutEntity).collation('C').primary(),
    number: p.integer().primary().autoincrement(false),
    at: p.datetime(3),
    status: p.text(),
    /** Empty: the service itself acted. */
    actor: p.text(),
    text: p.text(),
  },
})

/** The legal postings: see `postingsOf` in payout.ts. */
const MOVEMENTS = `case kind
    when 'reservation' then debit_account in ('available', 'pending', 'held', 'unmatched') and credit_account = 'reserved'
    when 'payment' then debit_account = 'reserved' and credit_account in ('paid_out', 'held')
    when 'fee' then debit_account = 'reserved' and credit_account = 'fees'
    when 'duty' then debit_account = 'reserved' and credit_account = 'duty'
    when 'release' then debit_account = 'reserved' and credit_account in ('available', 'pending', 'held', 'unmatched')
    when 'return' then debit_account = 'paid_out' and credit_account in ('available', 'pending', 'unmatched')
    when 'settlement_fee' then debit_account = 'available' and credit_account = 'fees'
    when 'split' then debit_account = 'available' and credit_account = 'splits'
    else kind ~ '^share_[1-5]$' and debit_account = 'splits' and credit_account = 'available' end`

/** One ledger posting of a payout. The primary key allows one posting of each kind. */
export const PayoutPostingEntity = defineEntity({
  name: 'PayoutPosting',
  tableName: 'payout_posting',
  properties: {
    payout: p.manyToOne(PayoutEntity).collation('C').primary(),
    kind: p.text().primary(),
    debitAccount: p.text(),
    creditAccount: p.text(),
    amountMinor: p.bigint(),
    createdAt: p.datetime(3),
    /** The recipient of a share. */
    businessId: p.text().nullable(),
  },
  indexes: [
    {
      name: 'payout_posting_share_index',
      properties: ['businessId'],
      where: 'business_id is not null',
    },
  ],
  checks: [
    { name: 'payout_posting_amount', expression: 'amount_minor > 0' },
    {
      name: 'payout_posting_business',
      expression: "(business_id is not null) = starts_with(kind, 'share_')",
    },
    { name: 'payout_posting_movement', expression: MOVEMENTS },
  ],
})

/**
 * The sum that a business requested on a day in Lagos, less the payouts that were not paid. Limits are checked against it.
 * Returns of unmatched payments have no business: their business id is empty, here and in `payout_beneficiary`.
 */
export const PayoutDayEntity = defineEntity({
  name: 'PayoutDay',
  tableName: 'payout_day',
  properties: {
    businessId: p.text().primary(),
    live: p.boolean().primary(),
    day: p.date().primary(),
    requestedMinor: p.bigint(),
  },
  indexes: [{ properties: ['live', 'day'] }],
  checks: [{ name: 'payout_day_requested', expression: 'requested_minor >= 0' }],
})

/** The beneficiaries of a business. */
export const PayoutBeneficiaryEntity = defineEntity({
  name: 'PayoutBeneficiary',
  tableName: 'payout_beneficiary',
  properties: {
    businessId: p.text().primary(),
    live: p.boolean().primary(),
    bankCode: p.text().primary(),
    accountNumber: p.text().primary(),
    accountName: p.text(),
    firstUsedAt: p.datetime(3),
    lastUsedAt: p.datetime(3),
  },
  indexes: [
    {
      name: 'payout_beneficiary_last_used_index',
      properties: ['businessId', 'live', 'lastUsedAt', 'bankCode', 'accountNumber'],
    },
  ],
})

/**
 * The refunds of a payment, paid or reserved; together they never exceed the credited amount. `pendingMinor` is the part
 * that refunds took from the pending balance and did not release there.
 */
export const PayoutRefundEntity = defineEntity({
  name: 'PayoutRefund',
  tableName: 'payout_refund',
  properties: {
    transactionId: p.text().collation('C').primary(),
    amountMinor: p.bigint(),
    refundedMinor: p.bigint(),
    pendingMinor: p.bigint(),
  },
  checks: [
    {
      name: 'payout_refund_refunded',
      expression: 'refunded_minor >= 0 and refunded_minor <= amount_minor',
    },
    {
      name: 'payout_refund_pending',
      expression: 'pending_minor >= 0 and pending_minor <= amount_minor',
    },
  ],
})

/** A pause of all payouts (scope GLOBAL, target empty), or of the payouts of a bank or a business. */
export const PayoutPauseEntity = defineEntity({
  name: 'PayoutPause',
  tableName: 'payout_pause',
  properties: {
    scope: p.text().$type<'GLOBAL' | 'BANK' | 'BUSINESS'>().primary(),
    target: p.text().primary(),
    reason: p.text(),
    pausedBy: p.text(),
    pausedAt: p.datetime(3),
  },
  indexes: [{ properties: ['pausedAt', 'scope', 'target'] }],
  checks: [
    {
      name: 'payout_pause_scope',
      expression:
        "case scope when 'GLOBAL' then target = '' else scope in ('BANK', 'BUSINESS') and target <> '' end",
    },
  ],
})

/** The rules of a business. The rules of the installation have an empty business id. */
export const PayoutPolicyEntity = defineEntity({
  name: 'PayoutPolicy',
  tableName: 'payout_policy',
  properties: {
    businessId: p.text().primary(),
    payoutMaxMinor: p.bigint(),
    dailyMaxMinor: p.bigint(),
    monthlyMaxMinor: p.bigint(),
    approvalAboveMinor: p.bigint().nullable(),
    coolDownHours: p.integer(),
    newBeneficiaryMaxMinor: p.bigint(),
    approvalHours: p.integer(),
    /** Amounts are strings, because JSON numbers do not hold 64-bit integers. */
    fees: p.json<readonly FeeBand<string>[]>(),
    chargeDuty: p.boolean(),
    settleTo: p.json<SettleTo>().nullable(),
    floorMinor: p.bigint(),
    updatedAt: p.datetime(3),
  },
  checks: [
    {
      name: 'payout_policy_settle_to',
      expression: "settle_to is null or business_id <> ''",
    },
  ],
})

/** Payouts that were requested together. */
export const PayoutBatchEntity = defineEntity({
  name: 'PayoutBatch',
  tableName: 'payout_batch',
  properties: {
    id: p.text().collation('C').primary(),
    businessId: p.text(),
    live: p.boolean(),
    reference: p.text(),
    count: p.integer(),
    sumMinor: p.bigint(),
    detailsHash: p.text(),
    requestedBy: p.text(),
    approvalReason: p.text(),
    createdAt: p.datetime(3),
  },
  uniques: [{ properties: ['businessId', 'live', 'reference'] }],
  indexes: [{ properties: ['businessId', 'id'] }],
})

/** An item of a batch. It waits for a name enquiry as long as it has a `nextAt`. */
export const PayoutItemEntity = defineEntity({
  name: 'PayoutItem',
  tableName: 'payout_item',
  properties: {
    batchId: p.text().collation('C').primary(),
    number: p.integer().primary().autoincrement(false),
    reference: p.text(),
    amountMinor: p.bigint(),
    bankCode: p.text(),
    accountNumber: p.text(),
    accountName: p.text(),
    narration: p.text(),
    nextAt: p.datetime(3).nullable(),
    /** Why the item has no payout; empty: it has a payout, or waits for one. */
    reason: p.text().default(''),
    detail: p.text().default(''),
  },
  indexes: [
    { name: 'payout_item_due_index', properties: ['nextAt'], where: 'next_at is not null' },
  ],
})

/** A completed settlement that is to be paid out. `nextAt` is when it is due next; null: never. */
export const SettlementPayoutEntity = defineEntity({
  name: 'SettlementPayout',
  tableName: 'settlement_payout',
  properties: {
    settlementId: p.text().primary(),
    businessId: p.text(),
    live: p.boolean(),
    netMinor: p.bigint(),
    /** How many requests for a payout were refused. */
    refusals: p.integer().default(0),
    detail: p.text().default(''),
    nextAt: p.datetime(3).nullable(),
  },
  indexes: [
    { name: 'settlement_payout_due_index', properties: ['nextAt'], where: 'next_at is not null' },
  ],
})

/** The balance of the operator's account at a bank, as an instance last read it. */
export const FloatEntity = defineEntity({
  name: 'BankFloat',
  tableName: 'bank_float',
  properties: {
    bank: p.text().primary(),
    live: p.boolean().primary(),
    availableMinor: p.bigint().nullable(),
    readAt: p.datetime(3).nullable(),
    error: p.text(),
    nextAt: p.datetime(3),
  },
})

/** The transfers of payouts that the bank's list or a statement showed as paid. */
export const PayoutListedEntity = defineEntity({
  name: 'PayoutListed',
  tableName: 'payout_listed',
  properties: {
    payout: p.manyToOne(PayoutEntity).collation('C').primary(),
    /** Empty: the bank does not state it. */
    sessionId: p.text().primary(),
    listedAt: p.datetime(3),
  },
})

/** A difference between the transfers of a bank and the payouts. */
export const PayoutDiscrepancyEntity = defineEntity({
  name: 'PayoutDiscrepancy',
  tableName: 'payout_discrepancy',
  properties: {
    id: p.text().collation('C').primary(),
    kind: p.text(),
    bank: p.text(),
    live: p.boolean(),
    /** Identifies the transfer at the bank: our reference, or the session id if the line has no reference. */
    lineKey: p.text(),
    bankReference: p.text(),
    sessionId: p.text(),
    payout: p.manyToOne(PayoutEntity).collation('C').nullable().deleteRule('no action'),
    amountMinor: p.bigint(),
    accountNumber: p.text(),
    text: p.text(),
    foundAt: p.datetime(3),
    resolvedAt: p.datetime(3).nullable(),
    resolvedBy: p.text().default(''),
    note: p.text().default(''),
  },
  uniques: [
    {
      name: 'payout_discrepancy_line_unique',
      properties: ['bank', 'live', 'lineKey', 'kind'],
    },
  ],
  indexes: [
    { name: 'payout_discrepancy_open_index', properties: ['id'], where: 'resolved_at is null' },
  ],
  checks: [
    {
      name: 'payout_discrepancy_kind',
      expression: "kind in ('MISSING_AT_BANK', 'MISSING_HERE', 'MISMATCHED', 'PAID_TWICE')",
    },
  ],
})

/** Up to which time the outgoing transfers of each bank have been compared, and when the next run is due. */
export const PayoutReconciliationEntity = defineEntity({
  name: 'PayoutReconciliation',
  tableName: 'payout_reconciliation',
  properties: {
    bank: p.text().primary(),
    toAt: p.datetime(3),
    nextAt: p.datetime(3),
  },
})
