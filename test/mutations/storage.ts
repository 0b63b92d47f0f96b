import { inFile } from './mutation.ts'

const MIGRATION = 'src/postgres/migrations/Migration20261122000000_initial.ts'

const CUTS = 'test/postgres/partitions/job.test.ts'
const DROPS = 'test/postgres/partitions/drop.test.ts'
const RETENTION = 'test/events/retention.test.ts'
const TICKS = 'test/events/kept-ticks.test.ts'

const cut = inFile(MIGRATION, CUTS, DROPS)
const drop = inFile(MIGRATION, DROPS, RETENTION)
const deliveries = inFile(MIGRATION, 'test/webhooks/deliveries/retention.test.ts')
const next = inFile(
  'src/postgres/partitions/next-cut.ts',
  CUTS,
  'test/postgres/partitions/next-cut.test.ts',
)
const read = inFile('src/postgres/partitions/partitions.ts', CUTS, RETENTION)
const tick = inFile(MIGRATION, TICKS, 'test/events/tick.test.ts')
const bump = inFile(MIGRATION, 'test/events/epoch-bump.test.ts', RETENTION)
const counter = inFile(
  MIGRATION,
  'test/settlement/balance-snapshots.test.ts',
  'test/events/sequencer.test.ts',
)
const archive = inFile(
  'src/events/retention-store.ts',
  'test/events/kept.test.ts',
  TICKS,
  RETENTION,
)

const connections = inFile(
  'src/postgres/open-connections.ts',
  'test/postgres/open-connections.test.ts',
)
const heartbeat = inFile('src/postgres/heartbeat.ts', 'test/postgres/heartbeat.test.ts')

/** Partitions, and the state of the sequencer that is only inserted. */
export const STORAGE = [
  cut(
    'a new partition lacks the unique indexes of the one before',
    'including all excluding identity)',
    'including all excluding identity excluding indexes)',
  ),
  cut(
    'a role changes events through a new partition',
    'perform protect_partition(to_regclass(rest));',
    '',
  ),
  cut(
    'a role that may write no events cuts and drops their partitions',
    "if not has_table_privilege(session_user, parent, 'insert') then",
    'if false then',
  ),
  drop(
    'an event that was committed during the wait for the lock is dropped',
    'if is_disposable(parent, upper_bound, true) is not true then',
    'if false then',
  ),
  drop(
    'a partition is dropped although its rows are needed',
    'or is_disposable(parent, upper_bound, false) is not true then',
    'then',
  ),
  drop(
    'payments are dropped',
    "when 'transaction' then return false;",
    "when 'transaction' then return true;",
  ),
  drop(
    'postings are dropped',
    "when 'ledger_posting' then return false;",
    "when 'ledger_posting' then return true;",
  ),
  drop(
    'a partition of the outbox is dropped before its first event',
    'return found and before <= coalesce((select max(seq) from outbox), 0) and not',
    'return found and not',
  ),
  drop(
    'the last event of the log is dropped, and a restore numbers events again',
    ' or before > (select position from sequencer)',
    '',
  ),
  drop(
    'an event loses its number before its content',
    'return not exists (select from event_log where position < before and outbox_seq >= first_seq);',
    'return true;',
  ),
  deliveries(
    'a partition of deliveries is dropped before its last event is dispatched',
    'upper::bigint <= 1 + (select max(position) from webhook_dispatcher)',
    'upper::bigint <= 2 + (select max(position) from webhook_dispatcher)',
  ),
  deliveries(
    'attempts are dropped before their deliveries',
    "when 'webhook_attempt' then return not exists",
    "when 'webhook_attempt' then return true or not exists",
  ),
  next(
    'a late job cuts through rows, and never succeeds',
    '(from > last ? from : last) + width',
    'from + width',
  ),
  read(
    'partitions are not dropped in the order of their keys',
    'order by p.upper is null, length(p.upper), p.upper collate "C"',
    'order by p.upper is null, p.upper collate "C"',
  ),
  tick(
    'no tick shows how far the outbox is archived',
    'delete from sequencer_tick where tick = state.tick - 1 and position >> 16 = state.position >> 16;',
    'delete from sequencer_tick where tick = state.tick - 1;',
  ),
  tick(
    'an instance reads an earlier state of the sequencer',
    'SELECT * FROM sequencer_tick ORDER BY tick DESC LIMIT 1',
    'SELECT * FROM sequencer_tick ORDER BY tick LIMIT 1',
  ),
  tick(
    'ticks are kept for ever',
    'delete from sequencer_tick where tick = state.tick - 1 and position >> 16 = state.position >> 16;',
    '',
  ),
  bump(
    'an epoch numbers events again that were numbered late',
    'state.low_position := state.next_low_position;',
    'state.low_position := state.position;',
  ),
  bump(
    'an epoch leaves out what had no position',
    'state.restored_seq := coalesce(state.restored_seq, state.low_seq);',
    'state.restored_seq := coalesce(state.restored_seq, state.next_low_seq);',
  ),
  counter(
    'the events of a business continue from an earlier counter',
    'order by b.last_sequence desc limit 1) c on true',
    'order by b.last_sequence limit 1) c on true',
  ),
  counter(
    'no balance of an earlier position is kept',
    'where last_sequence >> 10 = (last_sequence + events) >> 10',
    'where last_sequence >= 0',
  ),
  archive(
    'retention deletes the tick that shows how far the outbox is archived',
    't.position <= r.archived and ',
    '',
  ),
  archive(
    'events count as archived that are not',
    'set archived = (select max(position) from event)',
    'set archived = floor',
  ),
  archive(
    'events that have expired are read again',
    'set floor = $1 where id = 1 and floor < $1',
    'set floor = greatest($1, archived) where id = 1',
  ),
  connections(
    'a query that is only slow ends others with it',
    'this.#end(sentMs, (each) => each.isIdle())',
    'this.#end(sentMs, () => true)',
  ),
  connections(
    'a connection that has just answered ends with a silent one',
    'each.answeredMs() < sentMs && matches(each)',
    'matches(each)',
  ),
  connections(
    'a heartbeat that is lost alone ends all connections',
    'return answers ? 0 : this.#end(sentMs, () => true)',
    'return this.#end(sentMs, () => true)',
  ),
  connections(
    'connections to a new server keep those to the old one open',
    'each.openedMs() < answeredMs && each.answeredMs() >= sentMs',
    'each.answeredMs() >= sentMs',
  ),
  connections(
    'processes of another server are ended',
    'where server = $3 and',
    "where $3::text is distinct from '' and",
  ),
  connections('a commit that waits for a standby becomes visible', "and a.state <> 'active'", ''),
  connections(
    'the process of a new connection is ended in place of a lost one',
    "and a.backend_start < clock_timestamp() - given.ms * interval '1 ms'",
    '',
  ),
  heartbeat(
    'a process that stood still takes the server for silent',
    'const TICKS = 10',
    'const TICKS = 1',
  ),
]
