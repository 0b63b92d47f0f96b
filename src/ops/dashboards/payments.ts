import { type Dashboard, lines, quantiles, stat } from './dashboard.ts'

export const payments: Dashboard = {
  name: 'payments',
  title: 'payments',
  description: 'Incoming payments, their outcomes, and items that wait for an operator.',
  panels: [
    stat(
      'Recorded today',
      'Payments recorded in live mode in 24 hours.',
      'short',
      'sum(increase(inflow_payments_total{outcome="RECORDED",mode="live"}[24h]))',
    ),
    stat(
      'Amount today',
      'Money that arrived in live mode in 24 hours.',
      'currencyNGN',
      'sum(increase(inflow_payment_amount_kobo_total{mode="live"}[24h])) / 100',
    ),
    stat(
      'Conflicts today',
      'Reports that contradict a recorded payment.',
      'short',
      'sum(increase(inflow_payment_conflicts_total[24h]))',
      { from: 1 },
    ),
    stat(
      'Unmatched today',
      'Payments that match no open account.',
      'short',
      'sum(increase(inflow_unmatched_payments_total[24h]))',
      { from: 1 },
    ),
    stat(
      'Refused today',
      'Payments that the database refused to record.',
      'short',
      'sum(increase(inflow_payments_total{outcome="REFUSED"}[24h]))',
      { from: 1 },
    ),
    stat(
      'Oldest in review',
      'How long the oldest item has waited for an operator.',
      's',
      'max(inflow_review_oldest_seconds)',
      { from: 86_400 },
    ),
    lines(
      'Payments recorded, by bank',
      'Payments a second in live mode. A bank at 0 has stopped.',
      'reqps',
      [
        'sum by (bank) (rate(inflow_payments_total{outcome="RECORDED",mode="live"}[$__rate_interval]))',
        '{{bank}}',
      ],
    ),
    lines('Amount, by bank', 'Money that arrived in live mode, a minute.', 'currencyNGN', [
      'sum by (bank) (rate(inflow_payment_amount_kobo_total{mode="live"}[$__rate_interval])) * 60 / 100',
      '{{bank}}',
    ]),
    lines(
      'Reports by outcome',
      'Reported payments per second, in both modes. Duplicates are normal: banks repeat notifications.',
      'reqps',
      ['sum by (outcome) (rate(inflow_payments_total[$__rate_interval]))', '{{outcome}}'],
    ),
    lines('Manual review', 'Items that wait for an operator, by kind.', 'short', [
      'max by (kind) (inflow_review_items)',
      '{{kind}}',
    ]),
    lines(
      'Duration of a batch',
      'From the start of a batch to its commit: median and 99th percentile.',
      's',
      ...quantiles('inflow_batch_duration_seconds', 'batcher="payments"', 0.5, 0.99),
    ),
    lines(
      'Payments in a batch',
      'Payments that share a commit, on average, and batches that failed a second.',
      'short',
      [
        'sum(rate(inflow_batch_items_sum{batcher="payments"}[$__rate_interval])) / sum(rate(inflow_batch_items_count{batcher="payments"}[$__rate_interval]))',
        'payments',
      ],
      ['sum(rate(inflow_batch_failures_total{batcher="payments"}[$__rate_interval]))', 'failed'],
    ),
    lines('Settlement lag', 'How long the most overdue balance waits.', 's', [
      'max(inflow_settlement_lag_seconds)',
      'lag',
    ]),
    lines(
      'Followers of the log',
      'Age of the oldest event that is not yet in the figures or due settlements.',
      's',
      ['max by (follower) (inflow_log_follower_lag_seconds)', '{{follower}}'],
    ),
  ],
}
