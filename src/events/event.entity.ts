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
    /** The webhook endpoint that an ENDPOINT_… event is about. */
    subjectId: p.text().nullable(),
    xid: p.text().columnType('xid8').defaultRaw('pg_current_xact_id()').index(),
  },
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

/** The last number given in each mode of each business. */
export const BusinessCounterEntity = defineEntity({
  name: 'BusinessCounter',
  tableName: 'event_business_counter',
  properties: {
    businessId: p.text().primary(),
    live: p.boolean().primary(),
    lastSequence: p.bigint(),
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
