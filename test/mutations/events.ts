import { mutationsOf } from './mutation.ts'

/** Order: an event is lost, repeated, or numbered before its cause. */
export const EVENTS = mutationsOf(
  'events',
  ['test/postgres/drop-partition.test.ts', 'test/postgres/partition-job.test.ts'],
  {
    'src/postgres/migrations/20261122_initial/sequence_events.sql': {
      'the event of the oldest transaction in progress at a tick is lost': [
        `          where xid = any (array(select pg_snapshot_xip(state.snapshot))) and seq > state.low_seq
      ) candidate
      where state.target`,
        `          where xid > pg_snapshot_xmin(state.snapshot) and xid = any (array(select pg_snapshot_xip(state.snapshot))) and seq > state.low_seq
      ) candidate
      where state.target`,
      ],
      'the first transaction after a snapshot is skipped': [
        'where xid >= pg_snapshot_xmax(state.snapshot) and xid < pg_snapshot_xmax(upto)',
        'where xid > pg_snapshot_xmax(state.snapshot) and xid < pg_snapshot_xmax(upto)',
      ],
      'an event is numbered before its commit is in the snapshot of the batch': [
        `        and pg_visible_in_snapshot(xid, upto)
      order by seq limit rows_max)
      union all
      -- The rest`,
        `      order by seq limit rows_max)
      union all
      -- The rest`,
      ],
      'the rest of a snapshot repeats the last event of the batch': [
        'seq > greatest(state.done_seq, state.low_seq)',
        'seq >= greatest(state.done_seq, state.low_seq)',
      ],
      'events of a business are numbered in reverse': [
        'array_agg(seq order by seq) as seqs, array_agg(event_id order by seq) as event_ids',
        'array_agg(seq order by seq desc) as seqs, array_agg(event_id order by seq desc) as event_ids',
      ],
      'the modes of a business share a sequence': [
        'where b.business_id = a.business_id and b.live = a.live',
        'where b.business_id = a.business_id',
      ],
      'positions do not follow the order of writing': [
        'row_number() over (order by e.seq), e.seq',
        'row_number() over (order by e.seq desc), e.seq',
      ],
      'a counter forgets the earlier events of its business': [
        'select business_id, live, last_sequence + events, pending_minor',
        'select business_id, live, events, pending_minor',
      ],
      'ticks of two instances number the same events': [
        'if not pg_try_advisory_xact_lock(4736353) then',
        'if false then',
      ],
      'rows of transactions that are still in progress are not looked for any more': [
        'if state.target is null and pg_snapshot_xmin(upto) > state.next_low_xid then',
        'if state.target is null then',
      ],
      'no tick shows how far the outbox is archived': [
        'delete from sequencer_tick where tick = state.tick - 1 and position >> 16 = state.position >> 16;',
        'delete from sequencer_tick where tick = state.tick - 1;',
      ],
    },
    'src/postgres/migrations/20261122_initial/partitions.sql': {
      'a partition of the outbox is dropped before its events are archived': [
        'from sequencer_tick where position <= archived_to and',
        'from sequencer_tick where',
      ],
      'an event that has no position is dropped': [
        'and not pg_visible_in_snapshot(xid, numbered.snapshot)',
        'and false',
      ],
      'a partition is dropped although its rows are needed': [
        'or is_disposable(parent, upper_bound, false) is not true then',
        'then',
      ],
      'payments are dropped': [
        "when 'transaction' then return false;",
        "when 'transaction' then return true;",
      ],
      'postings are dropped': [
        "when 'ledger_posting' then return false;",
        "when 'ledger_posting' then return true;",
      ],
      'a partition of the outbox is dropped before its first event': [
        'return found and before <= coalesce((select max(seq) from outbox), 0) and not',
        'return found and not',
      ],
      'an event loses its number before its content': [
        'return not exists (select from event_log where position < before and outbox_seq >= first_seq);',
        'return true;',
      ],
    },
    'src/events/read-log.ts': {
      'the log is read out of order': [
        'order by l.position limit $2',
        'order by l.position desc limit $2',
      ],
      'a restricted token lists the events of all businesses': [
        '($4::text[] is null or l.business_id = any($4)) and',
        '',
      ],
    },
    'src/events/retention.ts': {
      'events that have not expired are archived': [
        'and position <= (select floor from retention) order by',
        'order by',
      ],
      'retention deletes the tick that shows how far the outbox is archived': [
        't.position <= r.archived and ',
        '',
      ],
      'events count as archived that are not': [
        'set archived = (select max(position) from event)',
        'set archived = floor',
      ],
    },
    'src/postgres/migrations/20261122_initial/events.sql': {
      'an epoch leaves out what had no position': [
        'state.restored_seq := coalesce(state.restored_seq, state.low_seq);',
        'state.restored_seq := coalesce(state.restored_seq, state.next_low_seq);',
      ],
    },
  },
)
