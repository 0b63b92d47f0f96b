import { inFile } from './mutation.ts'

const MIGRATION = 'src/postgres/migrations/Migration20261122000000_initial.ts'

const sequencer = inFile(MIGRATION, 'test/events/sequencer.test.ts', 'test/events/tick.test.ts')
const dropped = inFile(MIGRATION, 'test/events/retention.test.ts')
const cut = inFile(MIGRATION, 'test/postgres/partitions/job.test.ts')
const tail = inFile(
  'src/events/tail.ts',
  'test/events/tail.test.ts',
  'test/events/subscribe.test.ts',
)
const window = inFile(
  'src/events/tail-window.ts',
  'test/events/tail.test.ts',
  'test/events/subscribe.test.ts',
)
const readLog = inFile('src/events/read-log.ts', 'test/events/subscribe.test.ts')
const state = inFile('src/events/log-state.ts', 'test/events/subscribe.test.ts')
const stream = inFile('src/events/subscribe.ts', 'test/events/subscribe.test.ts')
const retention = inFile(
  'src/events/retention.ts',
  'test/events/retention.test.ts',
  'test/events/subscribe.test.ts',
)
const archive = inFile('src/events/retention-store.ts', 'test/events/retention.test.ts')

export const EVENTS = [
  sequencer(
    'the event of the oldest transaction in progress at a tick is lost',
    '          where xid = any (array(select pg_snapshot_xip(state.snapshot))) and seq > state.low_seq\n      ) candidate\n      where state.target',
    '          where xid > pg_snapshot_xmin(state.snapshot) and xid = any (array(select pg_snapshot_xip(state.snapshot))) and seq > state.low_seq\n      ) candidate\n      where state.target',
  ),
  sequencer(
    'a tick overlooks the oldest transaction in progress at the last one',
    'exists (select from outbox where xid = any (array(select pg_snapshot_xip(state.snapshot)))',
    'exists (select from outbox where xid > pg_snapshot_xmin(state.snapshot) and xid = any (array(select pg_snapshot_xip(state.snapshot)))',
  ),
  sequencer(
    'the first transaction after a snapshot is skipped',
    'where xid >= pg_snapshot_xmax(state.snapshot) and xid < pg_snapshot_xmax(upto)',
    'where xid > pg_snapshot_xmax(state.snapshot) and xid < pg_snapshot_xmax(upto)',
  ),
  sequencer(
    'an event is numbered before its commit is in the snapshot of the batch',
    '        and pg_visible_in_snapshot(xid, upto)\n      order by seq limit rows_max)\n      union all\n      -- The rest',
    '      order by seq limit rows_max)\n      union all\n      -- The rest',
  ),
  sequencer(
    'the rest of a snapshot repeats the last event of the batch',
    'seq > greatest(state.done_seq, state.low_seq)',
    'seq >= greatest(state.done_seq, state.low_seq)',
  ),
  sequencer(
    'a large commit is numbered in part',
    'elsif numbered = rows_max then',
    'elsif false then',
  ),
  sequencer(
    'the rest of a snapshot includes what an earlier one had',
    'and pg_visible_in_snapshot(xid, upto) and not pg_visible_in_snapshot(xid, state.snapshot)',
    'and pg_visible_in_snapshot(xid, upto)',
  ),
  sequencer(
    'events of a business are numbered in reverse',
    'array_agg(seq order by seq) as seqs, array_agg(event_id order by seq) as event_ids',
    'array_agg(seq order by seq desc) as seqs, array_agg(event_id order by seq desc) as event_ids',
  ),
  sequencer(
    'the events of a business get the ids of one another',
    'array_agg(event_id order by seq) as event_ids',
    'array_agg(event_id order by event_id desc) as event_ids',
  ),
  sequencer(
    'the modes of a business share a sequence',
    'where b.business_id = a.business_id and b.live = a.live',
    'where b.business_id = a.business_id',
  ),
  sequencer(
    'positions do not follow the order of writing',
    'row_number() over (order by e.seq), e.seq',
    'row_number() over (order by e.seq desc), e.seq',
  ),
  sequencer(
    'a counter forgets the earlier events of its business',
    'select business_id, live, last_sequence + events, pending_minor',
    'select business_id, live, events, pending_minor',
  ),
  sequencer(
    'ticks of two instances number the same events',
    'if not pg_try_advisory_xact_lock(4736353) then',
    'if false then',
  ),
  sequencer(
    'a tick forgets the snapshot that it read up to',
    'state.snapshot := upto;',
    'state.snapshot := pg_current_snapshot();',
  ),
  sequencer(
    'rows of transactions that are still in progress are not looked for any more',
    'if state.target is null and pg_snapshot_xmin(upto) > state.next_low_xid then',
    'if state.target is null then',
  ),
  sequencer(
    'rows of transactions after the snapshot that have their ids already are not looked for',
    'state.next_low_xid := own_xid;',
    'state.next_low_xid := pg_snapshot_xmax(upto);',
  ),
  sequencer('a tick is planned anew each time', " set plan_cache_mode to 'force_generic_plan'", ''),
  dropped(
    'a partition of the outbox is dropped before its events are archived',
    'from sequencer_tick where position <= archived_to and',
    'from sequencer_tick where',
  ),
  dropped(
    'an event that has no position is dropped',
    'and not pg_visible_in_snapshot(xid, numbered.snapshot)',
    'and false',
  ),
  dropped(
    'an archived event counts twice until it is dropped',
    ' AND l.position > (SELECT archived FROM event_retention WHERE id = 1)',
    '',
  ),
  cut('a new partition lacks the storage parameters', " || coalesce(options, '')", ''),
  tail(
    'a refresh that was overtaken appends old events',
    'else if (this.#window.last === last) this',
    'else this',
  ),
  tail(
    'events of two places follow each other in memory',
    '      this.#window.clear()\n      this.#window.append(page',
    '      this.#window.append(page',
  ),
  tail(
    'events of an earlier epoch stay in memory',
    '  #restart(epoch: number | undefined): void {\n    this.#window.clear()',
    '  #restart(epoch: number | undefined): void {',
  ),
  tail(
    'a gap that retention left is passed over in silence',
    'next[0].position === after.position + 1n',
    'next[0].position > after.position',
  ),
  tail(
    'a cursor continues after another event than its own',
    'const isSame = seen === undefined || after.tag',
    'const isSame = seen !== null || after.tag',
  ),
  window(
    'a reader receives the event again that it has seen',
    'this.#entries.slice(at + 1, at + 1 + limit)',
    'this.#entries.slice(at, at + 1 + limit)',
  ),
  window(
    'a reader skips an event in memory',
    'this.#entries.slice(at + 1, at + 1 + limit)',
    'this.#entries.slice(at + 2, at + 2 + limit)',
  ),
  window('memory ignores the tag of a cursor', "(tag === '' || tag === seen.tag)", 'true'),
  readLog(
    'the log is read out of order',
    'order by l.position limit $2',
    'order by l.position desc limit $2',
  ),
  readLog(
    'a stream since a time misses its first event',
    'logged_at < $2 as earlier',
    'logged_at <= $2 as earlier',
  ),
  state(
    'a cursor beyond the shared part of an epoch is accepted',
    'if (place.position > shared) throw',
    'if (place.position > shared + 1_000n) throw',
  ),
  state(
    'a cursor at the end of the shared part is refused',
    'if (place.position > shared) throw',
    'if (place.position >= shared) throw',
  ),
  state(
    'a cursor before deleted events is accepted',
    '  if (place.position < state.floor) throw expiredCursor',
    '  if (place.position < state.floor - 1n) throw expiredCursor',
  ),
  state(
    'another event at the place of a cursor is not noticed',
    'place.tag !== tagOf(eventId)',
    'false',
  ),
  stream(
    'a stream sends what its filter of businesses excludes',
    '(businesses.size === 0 || businesses.has(event.businessId))',
    'true',
  ),
  stream(
    'a stream sends what its filter of kinds excludes',
    '(kinds.size === 0 || kinds.has(event.kind))',
    'true',
  ),
  stream(
    'a stream goes on after its credential was revoked',
    'draining, watch.revoked]',
    'draining]',
  ),
  stream(
    'a subscription to the beginning starts at the end',
    "return { epoch, position: floor, tag: '' }",
    'return end',
  ),
  retention(
    'a second instance archives too if a run outlasts its lease',
    'if (nowMs >= extendAtMs) {',
    'if (nowMs < 0) {',
  ),
  retention(
    'expired events that were in use stay for ten minutes more',
    'await postponeRun(pool, clock.now() + lockedMs)',
    '',
  ),
  retention(
    'events that webhooks have not been given expire',
    'dispatched < end.position ? dispatched : end.position',
    'end.position',
  ),
  retention(
    'events that are too young expire',
    'clock.now() - retentionDays * DAY_MS',
    'clock.now()',
  ),
  archive(
    'events that have not expired are archived',
    'and position <= (select floor from retention) order by',
    'order by',
  ),
]
