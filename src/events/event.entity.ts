import { defineEntity, p } from '@mikro-orm/core'

/** Events as they were committed with their facts. Insert-only; the sequencer reads it. */
export const OutboxEntity = defineEntity({
  name: 'Outbox',
  tableName: 'outbox',
  properties: {
    seq: p
      .bigint()
      .primary()
      .autoincrement(false)
      .columnType('bigint generated always as identity'),
    eventId: p.text(),
    businessId: p.text(),
    live: p.boolean(),
    kind: p.text(),
    occurredAt: p.datetime(3),
    /** A serialized inflow.event.v1.Event without its place in the log. */
    payload: p.blob(),
    /** What it is about: a transaction, a settlement, a webhook endpoint. */
    subjectId: p.text().nullable(),
    xid: p.text().columnType('xid8').defaultRaw('pg_current_xact_id()').index(),
    /** What it does to the balances of its business, in kobo. */
    pendingMinor: p.bigint().defaultRaw('0'),
    availableMinor: p.bigint().defaultRaw('0'),
    feesMinor: p.bigint().defaultRaw('0'),
  },
  checks: [
    {
      name: 'outbox_payment',
      expression: "kind <> 'PAYMENT_NOTIFICATION' or pending_minor > 0",
    },
  ],
})

/**
 * Events in their final order. `position` is dense; so is `businessSequence` in each mode of each
 * business.
 */
export const EventLogEntity = defineEntity({
  name: 'EventLog',
  tableName: 'event_log',
  properties: {
    position: p.bigint().primary().autoincrement(false),
    outboxSeq: p.bigint(),
    eventId: p.text().unique(),
    businessId: p.text(),
    live: p.boolean(),
    businessSequence: p.bigint(),
    loggedAt: p.datetime(3),
  },
  uniques: [{ properties: ['businessId', 'live', 'businessSequence'] }],
})

/** What an event did to the balances of its business, kept when the event is deleted for its age. */
export const ArchivedEntryEntity = defineEntity({
  name: 'ArchivedEntry',
  tableName: 'archived_entry',
  properties: {
    businessId: p.text().primary(),
    live: p.boolean().primary(),
    businessSequence: p.bigint().primary().autoincrement(false),
    kind: p.text(),
    subjectId: p.text(),
    occurredAt: p.datetime(3),
    loggedAt: p.datetime(3),
    pendingMinor: p.bigint(),
    availableMinor: p.bigint(),
    feesMinor: p.bigint(),
  },
})

/** The last number given in each mode of each business, and the sums of what its numbered events did. */
export const BusinessCounterEntity = defineEntity({
  name: 'BusinessCounter',
  tableName: 'event_business_counter',
  properties: {
    businessId: p.text().primary(),
    live: p.boolean().primary(),
    lastSequence: p.bigint(),
    pendingMinor: p.bigint().columnType('numeric(38,0)'),
    availableMinor: p.bigint().columnType('numeric(38,0)'),
    feesMinor: p.bigint().columnType('numeric(38,0)'),
  },
})

/**
 * The sums of all events of a business up to one of them, as its counter had them: noted down every
 * thousand events or so, by a trigger.
 */
export const BalanceSnapshotEntity = defineEntity({
  name: 'BalanceSnapshot',
  tableName: 'balance_snapshot',
  properties: {
    businessId: p.text().primary(),
    live: p.boolean().primary(),
    businessSequence: p.bigint().primary().autoincrement(false),
    pendingMinor: p.bigint().columnType('numeric(38,0)'),
    availableMinor: p.bigint().columnType('numeric(38,0)'),
    feesMinor: p.bigint().columnType('numeric(38,0)'),
  },
})

/**
 * One row: the last position given, and the snapshot whose events are all numbered. While a large
 * batch is numbered in parts, `target` is the snapshot being worked off, up to `doneSeq`.
 */
export const SequencerEntity = defineEntity({
  name: 'Sequencer',
  tableName: 'sequencer',
  properties: {
    id: p.integer().primary().autoincrement(false),
    epoch: p.integer(),
    position: p.bigint(),
    snapshot: p.text().columnType('pg_snapshot'),
    target: p.text().columnType('pg_snapshot').nullable(),
    doneSeq: p.bigint(),
    /** The last position that was deleted for its age. */
    floor: p.bigint(),
  },
  checks: [{ name: 'sequencer_one_row', expression: 'id = 1' }],
})

/** From which position on each epoch counts: an older cursor is good up to there. */
export const EpochEntity = defineEntity({
  name: 'Epoch',
  tableName: 'event_epoch',
  properties: {
    epoch: p.integer().primary().autoincrement(false),
    startPosition: p.bigint(),
    startedAt: p.datetime(3),
  },
})
