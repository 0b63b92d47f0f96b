import { type Dashboard, lines, stat } from './dashboard.ts'

export const banks: Dashboard = {
  name: 'banks',
  title: 'banks',
  description: 'Do the banks respond, notify and confirm?',
  panels: [
    stat(
      'Banks out of reach',
      'Banks whose circuit breaker is open because they did not respond, or that deny us access.',
      'short',
      'count(max by (bank) (inflow_bank_breaker_state) == 2 or max by (bank) (inflow_bank_access_denied) == 1) or vector(0)',
      { from: 1 },
    ),
    stat(
      'Pending notifications',
      'Notifications that are not processed yet.',
      'short',
      'sum(max by (bank) (inflow_bank_notifications_pending))',
      { from: 100 },
    ),
    stat(
      'Oldest pending',
      'Age of the oldest notification that is not processed yet.',
      's',
      'max(inflow_bank_oldest_pending_notification_seconds)',
      { from: 900 },
    ),
    stat(
      'Refused today',
      'Notifications with a wrong signature, or from another address.',
      'short',
      'sum(increase(inflow_bank_notifications_total{outcome=~"UNAUTHENTICATED|REFUSED"}[24h]))',
      { from: 10 },
    ),
    stat(
      'Missed today',
      'Payments that a bank listed without having sent a notification.',
      'short',
      'sum(increase(inflow_bank_missing_payments_total[24h]))',
      { from: 1 },
    ),
    stat(
      'Last reconciliation',
      'How long ago the least recently reconciled bank was reconciled.',
      's',
      'time() - min(max by (bank) (inflow_bank_last_reconciliation_timestamp_seconds))',
      { from: 21_600 },
    ),
    lines(
      'Requests by result',
      'Requests to banks a second. rejected: by our circuit breaker or the limit of concurrent requests.',
      'reqps',
      [
        'sum by (bank, result) (rate(inflow_bank_requests_total[$__rate_interval]))',
        '{{bank}} {{result}}',
      ],
    ),
    lines('Duration of requests', 'The 95th percentile, by bank.', 's', [
      'histogram_quantile(0.95, sum by (bank, le) (rate(inflow_bank_request_duration_seconds_bucket[$__rate_interval])))',
      '{{bank}}',
    ]),
    lines('Notifications by outcome', 'Notifications a second.', 'reqps', [
      'sum by (bank, outcome) (rate(inflow_bank_notifications_total[$__rate_interval])) > 0',
      '{{bank}} {{outcome}}',
    ]),
    lines(
      'Since the last notification',
      'How long ago each bank sent its last authentic notification.',
      's',
      ['time() - max by (bank) (inflow_bank_last_notification_timestamp_seconds)', '{{bank}}'],
    ),
    lines(
      'Circuit breakers',
      '0: closed, calls are sent; 1: half open, one is tried; 2: open.',
      'short',
      ['max by (bank) (inflow_bank_breaker_state)', '{{bank}}'],
      ['max by (bank) (inflow_bank_access_denied)', '{{bank}} denies access'],
    ),
    lines('Missing payments', 'Payments per hour that only reconciliation found.', 'short', [
      'sum by (bank, outcome) (increase(inflow_bank_missing_payments_total[1h])) > 0',
      '{{bank}} {{outcome}}',
    ]),
    lines(
      'Pending notifications, by bank',
      'Notifications that the bank has not confirmed, or whose processing failed.',
      'short',
      ['max by (bank) (inflow_bank_notifications_pending)', '{{bank}}'],
    ),
    lines(
      'Conflicts and unmatched payments',
      'Reports per hour that need an operator.',
      'short',
      ['sum by (bank) (increase(inflow_payment_conflicts_total[1h]))', '{{bank}} conflicts'],
      ['sum by (bank) (increase(inflow_unmatched_payments_total[1h]))', '{{bank}} unmatched'],
    ),
    lines(
      'Payouts by result',
      'Payouts an hour in live mode by the status that they reached.',
      'short',
      [
        'sum by (status) (increase(inflow_payouts_total{mode="live",status=~"PAID|FAILED|RETURNED|UNKNOWN|MANUAL_REVIEW"}[1h]))',
        '{{status}}',
      ],
    ),
    lines(
      'Money for payouts',
      'The float at each bank, and the amount of approved payouts that wait.',
      'currencyNGN',
      ['max by (bank) (inflow_bank_float_kobo) / 100', '{{bank}}'],
      ['max(inflow_payouts_waiting_kobo) / 100', 'waits'],
    ),
    lines(
      'Oldest open payout, by status',
      'UNKNOWN: the bank does not state the result. MANUAL_REVIEW: an operator has to decide.',
      's',
      ['max by (status) (inflow_payouts_oldest_seconds)', '{{status}}'],
    ),
    lines('Differences between banks and payouts', 'Anything above 0 is an alarm.', 'short', [
      'max by (kind) (inflow_payout_discrepancies)',
      '{{kind}}',
    ]),
  ],
}
