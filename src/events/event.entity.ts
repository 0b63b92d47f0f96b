import { defineEntity, p } from '@mikro-orm/core'

/**
 * Events, committed in the same transaction as the change that they report. Insert-only; the
 * sequencer reads it: new rows by `xid`, a large backlog in the order of `seq`. So both have an index.
 */
export const OutboxEntity = defineEntity({
  name: 'Outbox',
  tableName: 'outbox',
  properties: {
    xid: p.text().columnType('xid8').defaultRaw('pg_current_xact_id()').index(),
    seq: p
      .bigint()
      .primary()
      .autoincrement(false)
      .columnType('bigint generated always as identity'),
    eventId: p.text().collation('C'),
    businessId: p.text(),
    live: p.boolean(),
    kind: p.text(),
    occurredAt: p.datetime(3),
    /** A serialized inflow.event.v1.Event without its position in the log. */
    payload: p.blob(),
    /** The id of its subject: a transaction, a settlement or a webhook endpoint. */
    subjectId: p.text().nullable(),
    /** The changes of the balances of its business, in kobo. */
    pendingMinor: p.bigint().defaultRaw('0'),
    availableMinor: p.bigint().defaultRaw('0'),
    feesMinor: p.bigint().defaultRaw('0'),
    /** Whether it moves money although its changes add up to zero. It is then listed in statements. */
    netsZero: p.boolean().defaultRaw('false'),
  },
  checks: [
    {
      name: 'outbox_payment',
      // A held payment counts towards no balance.
      expression:
        "case kind when 'PAYMENT_NOTIFICATION' then pending_minor >= 0 when 'PAYMENT_ACCEPTED' then pending_minor > 0 when 'SHARE_SETTLED' then pending_minor = 0 and available_minor > 0 and fees_minor = 0 when 'SHARE_REVERSED' then pending_minor = 0 and available_minor < 0 and fees_minor = 0 else true end",
    },
  ],
})

/**
 * Events in their final order. `position` has no gaps; `businessSequence` has no gaps within each
 * mode of a business. Each partition has a unique index on `businessId`, `live` and `businessSequence`, and a
 * summary of `eventId` (BRIN).
 */
export const EventLogEntity = defineEntity({
  name: 'EventLog',
  tableName: 'event_log',
  properties: {
    position: p.bigint().primary().autoincrement(false),
    outboxSeq: p.bigint(),
    eventId: p.text().collation('C'),
    businessId: p.text(),
    live: p.boolean(),
    businessSequence: p.bigint(),
    loggedAt: p.datetime(3),
    /** The epoch in which it got its numbers. */
    epoch: p.integer(),
  },
})

/** The archived entry of an event that moved money, once it has expired. */
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

/**
 * The last sequence number in each mode of a business after a tick, and the sums of its events up to that number. The
 * newest row counts; of the older rows, the last row of each 1,024 numbers remains.
 */
export const BusinessCounterEntity = defineEntity({
  name: 'BusinessCounter',
  tableName: 'event_business_counter',
  properties: {
    businessId: p.text().primary(),
    live: p.boolean().primary(),
    lastSequence: p.bigint().primary().autoincrement(false),
    pendingMinor: p.bigint().columnType('numeric(38,0)'),
    availableMinor: p.bigint().columnType('numeric(38,0)'),
    feesMinor: p.bigint().columnType('numeric(38,0)'),
  },
})

/**
 * The position and epoch up to which each follower has read the log, and how many events it has set aside: see
 * `follow-log.ts`. The highest position counts. Each move inserts a row and deletes the previous row, so that the newest
 * row is found at once, even while a long-lived snapshot keeps the older rows.
 */
export const LogFollowerEntity = defineEntity({
  name: 'LogFollower',
  tableName: 'log_follower',
  properties: {
    name: p.text().primary(),
    position: p.bigint().primary().autoincrement(false),
    epoch: p.integer(),
    setAside: p.bigint().defaultRaw('0'),
  },
})

/**
 * The state of the sequencer after a tick: the last position, and the snapshot whose events are all
 * numbered. The view `sequencer` shows the newest row. While a large backlog is numbered in batches,
 * `target` is the snapshot in progress, and its events up to `doneSeq` are done. Snapshots say nothing
 * about rows up to `baseSeq`, which may come from another cluster. While `restoredSeq` is set, rows after it
 * up to `baseSeq` are being numbered, except rows with a position after `restoredPosition`.
 */
export const SequencerTickEntity = defineEntity({
  name: 'SequencerTick',
  tableName: 'sequencer_tick',
  properties: {
    tick: p.bigint().primary().autoincrement(false),
    epoch: p.integer(),
    position: p.bigint(),
    snapshot: p.text().columnType('pg_snapshot'),
    target: p.text().columnType('pg_snapshot').nullable(),
    doneSeq: p.bigint(),
    /** The cluster and timeline of the last tick. */
    systemIdentifier: p.bigint(),
    timeline: p.integer(),
    baseSeq: p.bigint(),
    restoredSeq: p.bigint().nullable(),
    restoredPosition: p.bigint().nullable(),
    /** Every row of the outbox that may still have to be numbered is after this `seq`. */
    lowSeq: p.bigint(),
    /** Every row of the outbox after `lowSeq` has a position after this position. */
    lowPosition: p.bigint(),
    /** The next values of both, which apply once all transactions before an id have ended: see `sequence_events`. */
    nextLowSeq: p.bigint(),
    nextLowPosition: p.bigint(),
    nextLowXid: p.text().columnType('xid8'),
  },
  checks: [
    {
      name: 'sequencer_tick_low',
      expression: 'low_seq >= base_seq and next_low_seq >= low_seq',
    },
    {
      name: 'sequencer_tick_restored',
      expression: '(restored_seq is null) = (restored_position is null)',
    },
  ],
})

/** One row: the positions up to which events have expired and are archived. */
export const RetentionEntity = defineEntity({
  name: 'Retention',
  tableName: 'event_retention',
  properties: {
    id: p.integer().primary().autoincrement(false),
    /** The position of the last event that has expired. Readers get later events. */
    floor: p.bigint(),
    /** The position up to which events that moved money have archived entries. */
    archived: p.bigint(),
    /** No instance starts a run before this time. */
    nextRunAt: p.datetime(3),
  },
  checks: [
    { name: 'event_retention_one_row', expression: 'id = 1' },
    { name: 'event_retention_archived', expression: 'archived <= floor' },
  ],
})

/** The position at which each epoch started. Cursors of earlier epochs are valid up to this position. */
export const EpochEntity = defineEntity({
  name: 'Epoch',
  tableName: 'event_epoch',
  properties: {
    epoch: p.integer().primary().autoincrement(false),
    startPosition: p.bigint(),
    startedAt: p.datetime(3),
  },
})
