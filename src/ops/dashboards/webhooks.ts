import { type Dashboard, lines, quantiles, stat } from './dashboard.ts'

export const webhooks: Dashboard = {
  name: 'webhooks',
  title: 'webhooks',
  description: 'Are businesses notified, and how soon? Live mode, unless stated otherwise.',
  panels: [
    stat(
      'Acknowledged',
      'The share of requests that receivers acknowledge.',
      'percentunit',
      'inflow:webhook_attempts:success_ratio15m',
      { below: 0.9 },
    ),
    stat(
      'Pending',
      'Deliveries that are not acknowledged yet.',
      'short',
      'sum(max by (state) (inflow_webhook_deliveries_pending{mode="live"}))',
    ),
    stat(
      'Longest due',
      'How long an attempt has been due at a healthy endpoint. If it is more than seconds, the service is behind.',
      's',
      'max(inflow_webhook_oldest_due_seconds{state="enabled",mode="live"})',
      { from: 300 },
    ),
    stat(
      'Endpoints that fail',
      'Endpoints whose last attempt failed.',
      'short',
      'max(inflow_webhook_unhealthy_endpoints{state="failing",mode="live"})',
    ),
    stat(
      'Endpoints disabled',
      'Endpoints that were disabled because they failed for days, or are gone.',
      'short',
      'max(inflow_webhook_unhealthy_endpoints{state="disabled",mode="live"})',
      { from: 1 },
    ),
    stat(
      'Given up today',
      'Deliveries whose last attempt failed, in 24 hours.',
      'short',
      'sum(increase(inflow_webhook_deliveries_failed_total{mode="live"}[24h]))',
      { from: 1 },
    ),
    lines(
      'Attempts by outcome',
      'Requests a second. rejected: a response other than 2xx; no_response: a network fault or a time-out.',
      'reqps',
      [
        'sum by (outcome) (rate(inflow_webhook_attempts_total{mode="live"}[$__rate_interval]))',
        '{{outcome}}',
      ],
    ),
    lines(
      'Delay of deliveries',
      'From the event to the acknowledgement, with all retries.',
      's',
      ...quantiles('inflow_webhook_delivery_lag_seconds', 'mode="live"', 0.5, 0.95),
    ),
    lines(
      'Duration of an attempt',
      'How long receivers take; after 15 s an attempt is over.',
      's',
      ...quantiles('inflow_webhook_attempt_duration_seconds', 'mode="live"', 0.5, 0.99),
    ),
    lines(
      'Backlog by state of the endpoint',
      'Pending deliveries. Those of disabled endpoints are paused.',
      'short',
      ['max by (state) (inflow_webhook_deliveries_pending{mode="live"})', '{{state}}'],
    ),
    lines('Oldest pending delivery', 'Its age, by state of the endpoint.', 's', [
      'max by (state) (inflow_webhook_oldest_pending_seconds{mode="live"})',
      '{{state}}',
    ]),
    lines(
      'Longest due attempt',
      'How long the next attempt has been due, by state of the endpoint.',
      's',
      ['max by (state) (inflow_webhook_oldest_due_seconds{mode="live"})', '{{state}}'],
    ),
    lines('Attempts in test mode', 'Requests a second.', 'reqps', [
      'sum by (outcome) (rate(inflow_webhook_attempts_total{mode="test"}[$__rate_interval]))',
      '{{outcome}}',
    ]),
    lines('Relay', 'Events a second that are published to the broker.', 'reqps', [
      'sum by (instance) (rate(inflow_relay_events_total[$__rate_interval]))',
      '{{instance}}',
    ]),
  ],
}
