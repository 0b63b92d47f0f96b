import { defineEntity, p } from '@mikro-orm/core'
import { BusinessEntity } from '../businesses/business.entity.ts'
import type { PayoutPurpose, PayoutStatus, Source } from './payout.ts'
import type { FeeBand, SettleTo } from './policy.ts'

const FINAL = "status in ('PAID', 'FAILED', 'REJECTED', 'CANCELLED', 'EXPIRED', 'RETURNED')"

/**
 * One payout. `nextAt` is when it is sent, asked about or expires next. `claims` counts who took that up, so that an
 * instance that comes late changes nothing.
 */
export const PayoutEntity = defineEntity({
  name: 'Payout',
  tableName: 'payout',
  properties: {
    id: p.text().collation('C').primary(),
    /** Null: it returns an unmatched payment, which belongs to none. */
    business: p
      .manyToOne(BusinessEntity)
      .nullable()
      .deleteRule('no action')
      .updateRule('no action'),
    live: p.boolean(),
    /** The caller's own. */
    reference: p.text(),
    purpose: p.text().$type<PayoutPurpose>(),
    status: p.text().$type<PayoutStatus>(),
    /** The balance that it is paid from. */
    source: p.text().$type<Source>(),
    amountMinor: p.bigint(),
    feeMinor: p.bigint(),
    dutyMinor: p.bigint(),
    bankCode: p.text(),
    bankName: p.text(),
    accountNumber: p.text(),
    accountName: p.text(),
    narration: p.text(),
    /** The bank that stated the name, and what its transfers need of that. */
    resolvedBank: p.text().nullable(),
    enquiryReference: p.text(),
    /** The bank that sends it. */
    bank: p.text().nullable(),
    /** Our reference at that bank, for life. */
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
    // No relation: a partition that is referred to cannot be cut.
    transactionId: p.text().collation('C').nullable(),
    refundedSessionId: p.text().default(''),
    unmatchedPaymentId: p.text().nullable(),
    /** Where the unmatched payment arrived. */
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
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "payout" (${columns.business}, ${columns.live}, ${columns.id}) include (${columns.status}, ${columns.purpose})`,
    },
    {
      name: 'payout_live_id_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "payout" (${columns.live}, ${columns.id}) include (${columns.status}, ${columns.purpose})`,
    },
    {
      name: 'payout_due_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "payout" (${columns.nextAt}) where next_at is not null`,
    },
    {
      name: 'payout_open_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "payout" (${columns.business}, ${columns.live}, ${columns.id}) include (${columns.amountMinor}, ${columns.feeMinor}, ${columns.dutyMinor}, ${columns.bank}) where completed_at is null`,
    },
    {
      name: 'payout_open_id_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "payout" (${columns.live}, ${columns.id}) where completed_at is null`,
    },
    {
      name: 'payout_in_progress_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "payout" (${columns.bank}, ${columns.live}) include (${columns.amountMinor}) where status in ('SUBMITTING', 'UNKNOWN')`,
    },
    {
      name: 'payout_transaction_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "payout" (${columns.transactionId}, ${columns.id}) where transaction_id is not null`,
    },
    {
      name: 'payout_unmatched_unique',
      expression: (columns, _table, indexName) =>
        `create unique index ${indexName} on "payout" (${columns.refundedSessionId}, ${columns.unmatchedBank}) where unmatched_payment_id is not null and status not in ('FAILED', 'REJECTED', 'CANCELLED', 'EXPIRED', 'RETURNED')`,
    },
    {
      name: 'payout_unmatched_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "payout" (${columns.refundedSessionId}, ${columns.unmatchedBank}, ${columns.id}) where unmatched_payment_id is not null`,
    },
    {
      name: 'payout_settlement_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "payout" (${columns.settlementId}) where settlement_id is not null`,
    },
    {
      name: 'payout_batch_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "payout" (${columns.batchId}, ${columns.id}) where batch_id is not null`,
    },
    { name: 'payout_account_index', properties: ['accountNumber', 'id'] },
    { name: 'payout_reference_index', properties: ['reference'] },
    {
      name: 'payout_session_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "payout" (${columns.sessionId}) where session_id <> ''`,
    },
    {
      name: 'payout_approval_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "payout" (${columns.id}) where status = 'PENDING_APPROVAL'`,
    },
    {
      name: 'payout_unclear_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "payout" (${columns.id}) where status in ('UNKNOWN', 'MANUAL_REVIEW')`,
    },
    {
      name: 'payout_paid_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "payout" (${columns.bank}, ${columns.live}, ${columns.completedAt}) where status = 'PAID'`,
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

/** Since when this copy of the database is the one that sends: one row, which `payout_generation` keeps. */
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

/** What happened to a payout, in order. */
export const PayoutStepEntity = defineEntity({
  name: 'PayoutStep',
  tableName: 'payout_step',
  properties: {
    payout: p
      .manyToOne(PayoutEntity)
      .collation('C')
      .primary()
      .deleteRule('no action')
      .updateRule('no action'),
    number: p.integer().primary().autoincrement(false),
    at: p.datetime(3),
    status: p.text(),
    /** Empty: the service itself. */
    actor: p.text(),
    text: p.text(),
  },
})

/** The legal postings: see TRANSITIONS in payout.ts. */
const MOVEMENTS = `case kind
    when 'reservation' then debit_account in ('available', 'pending', 'held', 'unmatched') and credit_account = 'reserved'
    when 'payment' then debit_account = 'reserved' and credit_account in ('paid_out', 'held')
    when 'fee' then debit_account = 'reserved' and credit_account = 'fees'
    when 'duty' then debit_account = 'reserved' and credit_account = 'duty'
    when 'release' then debit_account = 'reserved' and credit_account in ('available', 'pending', 'held', 'unmatched')
    when 'return' then debit_account = 'paid_out' and credit_account in ('available', 'unmatched')
    else false end`

/** One movement of money of a payout. The primary key allows one posting of each kind. */
export const PayoutPostingEntity = defineEntity({
  name: 'PayoutPosting',
  tableName: 'payout_posting',
  properties: {
    payout: p
      .manyToOne(PayoutEntity)
      .collation('C')
      .primary()
      .deleteRule('no action')
      .updateRule('no action'),
    kind: p.text().primary(),
    debitAccount: p.text(),
    creditAccount: p.text(),
    amountMinor: p.bigint(),
    createdAt: p.datetime(3),
  },
  checks: [
    { name: 'payout_posting_amount', expression: 'amount_minor > 0' },
    { name: 'payout_posting_movement', expression: MOVEMENTS },
  ],
})

/**
 * What a business requested on a day in Lagos, less what was not paid: for its limits. Returns of unmatched payments have no
 * business: its id is empty, here and in the next table.
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

/** Whom a business has paid. */
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
 * What was refunded of a payment, or is reserved for refunds: never more than was credited. `pendingMinor` is what refunds
 * took from the pending balance and did not give back there.
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

/** What is stopped: everything (scope GLOBAL, target empty), a bank or a business. */
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

/** The rules of a business; those of the installation have no business. */
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
    /** Amounts are texts: JSON has no integers of 64 bits. */
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

/** An item of a batch. It waits for a bank to name its account as long as it has a `nextAt`. */
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
    /** Why it has no payout; empty: it has one, or waits. */
    reason: p.text().default(''),
    detail: p.text().default(''),
  },
  indexes: [
    {
      name: 'payout_item_due_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "payout_item" (${columns.nextAt}) where next_at is not null`,
    },
  ],
})

/** A completed settlement that is paid out. `nextAt` is when it is looked at next; null: never. */
export const SettlementPayoutEntity = defineEntity({
  name: 'SettlementPayout',
  tableName: 'settlement_payout',
  properties: {
    settlementId: p.text().primary(),
    businessId: p.text(),
    live: p.boolean(),
    netMinor: p.bigint(),
    /** How often nothing could be requested. */
    refusals: p.integer().default(0),
    detail: p.text().default(''),
    nextAt: p.datetime(3).nullable(),
  },
  indexes: [
    {
      name: 'settlement_payout_due_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "settlement_payout" (${columns.nextAt}) where next_at is not null`,
    },
  ],
})

/** What the operator's account at a bank had when one instance last read it. */
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
    payout: p
      .manyToOne(PayoutEntity)
      .collation('C')
      .primary()
      .deleteRule('no action')
      .updateRule('no action'),
    /** Empty: the bank does not state it. */
    sessionId: p.text().primary(),
    listedAt: p.datetime(3),
  },
})

/** A difference between what a bank sent out and the payouts. */
export const PayoutDiscrepancyEntity = defineEntity({
  name: 'PayoutDiscrepancy',
  tableName: 'payout_discrepancy',
  properties: {
    id: p.text().collation('C').primary(),
    kind: p.text(),
    bank: p.text(),
    live: p.boolean(),
    /** Names the transfer at the bank: our reference, or its session id where it has none. */
    lineKey: p.text(),
    bankReference: p.text(),
    sessionId: p.text(),
    payout: p
      .manyToOne(PayoutEntity)
      .collation('C')
      .nullable()
      .deleteRule('no action')
      .updateRule('no action'),
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
    {
      name: 'payout_discrepancy_open_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "payout_discrepancy" (${columns.id}) where resolved_at is null`,
    },
  ],
  checks: [
    {
      name: 'payout_discrepancy_kind',
      expression: "kind in ('MISSING_AT_BANK', 'MISSING_HERE', 'MISMATCHED', 'PAID_TWICE')",
    },
  ],
})

/** Up to when the outgoing list of each bank has been compared, and when that is due next. */
export const PayoutReconciliationEntity = defineEntity({
  name: 'PayoutReconciliation',
  tableName: 'payout_reconciliation',
  properties: {
    bank: p.text().primary(),
    toAt: p.datetime(3),
    nextAt: p.datetime(3),
  },
})
