import { type Dashboard, lines, stat } from './dashboard.ts'

export const database: Dashboard = {
  name: 'database',
  title: 'database',
  description: 'Connections, commits, replication, and resources that can run out.',
  panels: [
    stat(
      'Connections used',
      'Connections of all clients, as a part of what the server accepts.',
      'percentunit',
      'max(inflow_db_connections) / max(inflow_db_connections_max)',
      { from: 0.9 },
    ),
    stat(
      'Commits that wait',
      'Commits that wait for a synchronous standby.',
      'short',
      'max(inflow_db_standby_waits)',
      { from: 1 },
    ),
    stat(
      'Synchronous standbys',
      'Connected standbys that confirm commits.',
      'short',
      'sum(max by (sync_state) (inflow_db_standbys{sync_state=~"sync|quorum"}))',
    ),
    stat('Timeline', 'It rises with each failover.', 'short', 'max(inflow_db_timeline)'),
    stat(
      'Oldest transaction',
      'How long the oldest transaction has been open.',
      's',
      'max(inflow_db_oldest_transaction_seconds)',
      { from: 1800 },
    ),
    stat(
      'Partitions ahead',
      'How long the partitions ahead last, for the table with the least time left.',
      's',
      'min(inflow_partitions_ahead_seconds)',
      { below: 86_400 },
    ),
    stat(
      'Archiving fails',
      'Whether the server failed to archive the latest part of its log.',
      'short',
      'max(inflow_wal_archive_failing)',
      { from: 1 },
    ),
    lines(
      'Connections in use, by pool',
      'Connections that a statement or transaction uses.',
      'short',
      [
        'sum by (instance, pool) (inflow_db_pool_connections{state="used"})',
        '{{instance}} {{pool}}',
      ],
    ),
    lines(
      'Wait for a connection',
      'The 99th percentile, by pool. The pool `recording` serves payments alone.',
      's',
      ['inflow:db_pool_wait_seconds:p99_5m', '{{instance}} {{pool}}'],
    ),
    lines(
      'Size of the pools',
      'The most connections of each pool, and callers that wait.',
      'short',
      ['sum by (pool) (inflow_db_pool_connections_max)', '{{pool}} most'],
      ['sum by (pool) (inflow_db_pool_waiting)', '{{pool}} waiting'],
    ),
    lines('Duration of batches', 'The 99th percentile to the commit, by batcher.', 's', [
      'histogram_quantile(0.99, sum by (batcher, le) (rate(inflow_batch_duration_seconds_bucket[$__rate_interval])))',
      '{{batcher}}',
    ]),
    lines(
      'Standbys',
      'Connected standbys by sync state. unknown: the role lacks pg_monitor.',
      'short',
      ['max by (sync_state) (inflow_db_standbys)', '{{sync_state}}'],
    ),
    lines(
      'Lag of standbys',
      'How long the slowest standby takes to replay, and how long each replica was not usable.',
      's',
      ['max(inflow_db_standby_lag_seconds)', 'slowest standby'],
      ['max by (replica) (inflow_replica_lag_seconds)', '{{replica}}'],
    ),
    lines(
      'Bytes not replayed',
      'How much of the log of the primary the slowest standby, and each replica, lacks.',
      'bytes',
      ['max(inflow_db_standby_lag_bytes)', 'slowest standby'],
      ['max by (replica) (inflow_replica_lag_bytes)', '{{replica}}'],
    ),
    lines(
      'Reads by server',
      'Look-ups and pages a second. Most go to the primary: the replicas are behind.',
      'reqps',
      ['sum by (target) (rate(inflow_reads_total[$__rate_interval]))', '{{target}}'],
    ),
    lines(
      'Transaction ids',
      'How many are open behind the oldest transaction, and how old the oldest unfrozen one is.',
      'short',
      ['max(inflow_database_oldest_xid_age)', 'open'],
      ['max(inflow_db_frozen_xid_age)', 'not frozen'],
    ),
    lines('Partitions ahead, by table', 'How long the partitions ahead will last.', 's', [
      'min by (table) (inflow_partitions_ahead_seconds)',
      '{{table}}',
    ]),
    lines(
      'Events without a position',
      'Committed events that the sequencer has not numbered.',
      'short',
      ['max(inflow_sequencer_lag_rows)', 'events'],
    ),
    lines('Epoch of the event log', 'It rises after a failover or a restore.', 'short', [
      'max(inflow_event_epoch)',
      'epoch',
    ]),
  ],
}
