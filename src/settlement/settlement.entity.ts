import { defineEntity, type InferEntity, p } from '@mikro-orm/core'
import { BusinessEntity } from '../businesses/business.entity.ts'
import type { Schedule } from './schedule.ts'

/** The settlement schedule and fees of a business. Without a row, the default terms apply. */
export const TermsEntity = defineEntity({
  name: 'SettlementTerms',
  tableName: 'settlement_terms',
  properties: {
    business: p.manyToOne(BusinessEntity).primary().deleteRule('no action').updateRule('no action'),
    schedule: p.text().$type<Schedule['schedule']>(),
    workingDays: p.integer(),
    /** Minutes after midnight in Lagos. */
    cutOffMinutes: p.integer(),
    feeFlatMinor: p.bigint(),
    feeBasisPoints: p.integer(),
    /** 0: no maximum. */
    feeCapMinor: p.bigint(),
    updatedAt: p.datetime(3),
  },
  checks: [
    {
      name: 'settlement_terms_schedule',
      expression: "schedule in ('INSTANT', 'DAILY', 'WORKING_DAYS')",
    },
    {
      name: 'settlement_terms_days',
      expression:
        "working_days >= 0 and working_days <= 30 and (working_days > 0) = (schedule = 'WORKING_DAYS')",
    },
    {
      name: 'settlement_terms_cut_off',
      expression: 'cut_off_minutes >= 0 and cut_off_minutes < 1440',
    },
    {
      name: 'settlement_terms_fee',
      expression:
        'fee_flat_minor >= 0 and fee_basis_points >= 0 and fee_basis_points <= 10000 and fee_cap_minor >= 0',
    },
  ],
})

/** Days other than Saturdays and Sundays that are not working days. */
export const HolidayEntity = defineEntity({
  name: 'Holiday',
  tableName: 'holiday',
  properties: {
    day: p.date().primary(),
    name: p.text(),
  },
})

/** A caller's request to settle, under the idempotency key that the caller chose for this business. */
export const SettlementRequestEntity = defineEntity({
  name: 'SettlementRequest',
  tableName: 'settlement_request',
  properties: {
    id: p.text().primary(),
    /** Empty: all businesses that are due. */
    businessId: p.text(),
    live: p.boolean(),
    /** The request id of the contract. */
    idempotencyKey: p.text(),
    forced: p.boolean(),
    createdAt: p.datetime(3),
    completedAt: p.datetime(3).nullable(),
  },
  uniques: [{ properties: ['businessId', 'live', 'idempotencyKey'] }],
  indexes: [
    { name: 'settlement_request_open_index', properties: ['id'], where: 'completed_at is null' },
  ],
})

export type SettlementRequest = InferEntity<typeof SettlementRequestEntity>

/**
 * One settlement of one business in one mode. It covers the events after `fromSequence` up to and
 * including `toSequence`, and has processed them up to `scannedSequence`. The `balance…` columns
 * are the balance after all events up to `scannedSequence`.
 */
export const SettlementEntity = defineEntity({
  name: 'Settlement',
  tableName: 'settlement',
  properties: {
    id: p.text().primary(),
    business: p.manyToOne(BusinessEntity),
    live: p.boolean(),
    request: p.manyToOne(SettlementRequestEntity).nullable().deleteRule('no action'),
    status: p.text(),
    forced: p.boolean(),
    cutOffAt: p.datetime(3),
    fromSequence: p.bigint(),
    toSequence: p.bigint(),
    scannedSequence: p.bigint(),
    feeFlatMinor: p.bigint(),
    feeBasisPoints: p.integer(),
    feeCapMinor: p.bigint(),
    transactionCount: p.bigint(),
    grossMinor: p.bigint(),
    feesMinor: p.bigint(),
    /** The shares of other businesses. */
    splitsMinor: p.bigint().defaultRaw('0'),
    balancePendingMinor: p.bigint().columnType('numeric(38,0)'),
    balanceAvailableMinor: p.bigint().columnType('numeric(38,0)'),
    balanceFeesMinor: p.bigint().columnType('numeric(38,0)'),
    /** The number of full settlements of the same request and business before this one. */
    part: p.integer().defaultRaw('0'),
    startedAt: p.datetime(3),
    completedAt: p.datetime(3).nullable(),
  },
  uniques: [
    { properties: ['business', 'live', 'toSequence'] },
    { properties: ['request', 'business', 'part'] },
    {
      name: 'settlement_running_unique',
      properties: ['business', 'live'],
      where: "status = 'RUNNING'",
    },
  ],
  indexes: [{ properties: ['business', 'live', 'id'] }, { properties: ['live', 'id'] }],
  checks: [
    { name: 'settlement_status', expression: "status in ('RUNNING', 'COMPLETED')" },
    {
      name: 'settlement_completed',
      expression:
        "(completed_at is not null) = (status = 'COMPLETED') and (status = 'RUNNING' or scanned_sequence = to_sequence)",
    },
    {
      name: 'settlement_range',
      expression:
        'from_sequence <= scanned_sequence and scanned_sequence <= to_sequence and from_sequence < to_sequence',
    },
    {
      name: 'settlement_totals',
      expression:
        'transaction_count >= 0 and gross_minor >= 0 and fees_minor >= 0 and splits_minor >= 0 and fees_minor + splits_minor <= gross_minor',
    },
  ],
})

/**
 * The index of due balances: a row for each balance with unsettled payments. `dueAt` is when the oldest payment is due. The
 * job settles the balance from `nextAt` on; a failure or the claim of an instance postpones `nextAt`. Recording a payment
 * does not write the index: see `sweep-due.ts`. It has no foreign key, which would lock the business for each row.
 */
export const DueEntity = defineEntity({
  name: 'SettlementDue',
  tableName: 'settlement_due',
  properties: {
    businessId: p.text().primary(),
    live: p.boolean().primary(),
    dueAt: p.datetime(3),
    nextAt: p.datetime(3),
    /** Failed attempts in a row. */
    failures: p.integer(),
  },
  indexes: [
    { properties: ['nextAt'] },
    // For the pages of lists of due balances.
    { properties: ['dueAt', 'businessId', 'live'] },
  ],
})

/** The state of the sweep of the index, in one row: the balance after which it continues, and when. */
export const SweepEntity = defineEntity({
  name: 'SettlementSweep',
  tableName: 'settlement_sweep',
  properties: {
    id: p.integer().primary().autoincrement(false),
    nextAt: p.datetime(3),
    afterBusinessId: p.text(),
    afterLive: p.boolean(),
    /** Whether due times have changed or events are missing, so that repairs are expected and not logged as errors. */
    isExpected: p.boolean(),
  },
  checks: [{ name: 'settlement_sweep_one_row', expression: 'id = 1' }],
})
