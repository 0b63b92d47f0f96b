import { type Dashboard, lines, stat } from './dashboard.ts'

export const overview: Dashboard = {
  name: 'overview',
  title: 'overview',
  description: 'Is money recorded, reported and settled? Begin here.',
  panels: [
    stat('Instances ready', 'Instances that can serve calls.', 'short', 'sum(inflow_ready)', {
      below: 1,
    }),
    stat(
      'Payments a minute',
      'Payments recorded in live mode.',
      'short',
      'sum(rate(inflow_payments_total{outcome="RECORDED",mode="live"}[5m])) * 60',
    ),
    stat(
      'Failed calls',
      'The share of calls that fail because of an error in the service.',
      'percentunit',
      'sum(rate(inflow_rpc_requests_total{code=~"internal|unavailable"}[5m])) / sum(rate(inflow_rpc_requests_total[5m])) or vector(0)',
      { from: 0.02 },
    ),
    stat(
      'Webhooks acknowledged',
      'The share of webhook requests in live mode that receivers acknowledge.',
      'percentunit',
      'inflow:webhook_attempts:success_ratio15m',
      { below: 0.9 },
    ),
    stat(
      'In manual review',
      'Items that wait for a decision by an operator.',
      'short',
      'sum(max by (kind) (inflow_review_items))',
      { from: 1 },
    ),
    stat(
      'Settlement lag',
      'How long the most overdue balance waits.',
      's',
      'max(inflow_settlement_lag_seconds)',
      { from: 1800 },
    ),
    lines(
      'Calls by code',
      'Calls per second over all protocols. `internal` and `unavailable` are errors of the service.',
      'reqps',
      ['sum by (code) (rate(inflow_rpc_requests_total[$__rate_interval]))', '{{code}}'],
    ),
    lines('Slowest calls', 'The 99th percentile of the five slowest methods.', 's', [
      'topk(5, inflow:rpc_duration_seconds:p99_5m)',
      '{{method}}',
    ]),
    lines(
      'Event log',
      'Age of the oldest event without a position, and of the oldest that the relay has not published.',
      's',
      ['max(inflow_sequencer_lag_seconds)', 'sequencer'],
      ['min(inflow_relay_lag_seconds)', 'relay'],
    ),
    lines('CPU', 'CPU time of each process: 1 is a whole core.', 'short', [
      'rate(process_cpu_seconds_total{job="inflow"}[$__rate_interval])',
      '{{instance}}',
    ]),
    lines(
      'Event loop delay',
      'How long work waits for the CPU in each process, 99th percentile.',
      's',
      ['nodejs_eventloop_lag_p99_seconds{job="inflow"}', '{{instance}}'],
    ),
    lines('Memory', 'Resident memory of each process.', 'bytes', [
      'process_resident_memory_bytes{job="inflow"}',
      '{{instance}}',
    ]),
    lines(
      'Connections and subscribers',
      'Open connections by server, and subscribers that have received all events.',
      'short',
      ['sum by (server) (inflow_connections)', '{{server}}'],
      ['sum(inflow_event_subscribers_waiting)', 'subscribers'],
    ),
    lines('Versions', 'Instances of each version: two during an upgrade.', 'short', [
      'count by (version) (inflow_build_info)',
      '{{version}}',
    ]),
  ],
}
