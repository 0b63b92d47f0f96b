import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { BankCode } from './bank.ts'
import type { BreakerState } from './http/circuit-breaker.ts'
import type { RequestResult } from './http/create-bank-http.ts'

/** How the banks are doing. */
export interface BankMetrics {
  request(bank: BankCode, result: RequestResult, durationMs: number): void
  /** @param state asked when the metrics are read */
  breaker(bank: BankCode, state: () => BreakerState): void
  /** @param outcome what became of it; `REFUSED` for one that was not even read */
  notification(bank: BankCode, outcome: string, atMs: number): void
  unmatched(bank: BankCode): void
  /** A payment was told of otherwise than it is recorded. */
  differs(bank: BankCode): void
  /** @param outcome what became of a payment that the bank listed and nobody had told of */
  missed(bank: BankCode, outcome: string): void
  /** The bank was asked for missed payments. */
  reconciled(bank: BankCode, atMs: number): void
}

const BREAKER_VALUES: Readonly<Record<BreakerState, number>> = {
  closed: 0,
  'half open': 1,
  open: 2,
}

/** Outcomes that say nothing of the bank, as anybody can cause them. */
const STRANGE = new Set(['UNAUTHENTICATED', 'REFUSED'])

export function createBankMetrics(register: Registry): BankMetrics {
  const registers = [register]
  const requests = new Counter({
    name: 'inflow_bank_requests_total',
    help: 'Requests to a bank, by what became of them: a class of statuses, or why there was none.',
    labelNames: ['bank', 'result'],
    registers,
  })
  const seconds = new Histogram({
    name: 'inflow_bank_request_duration_seconds',
    help: 'How long requests took that were sent to a bank.',
    labelNames: ['bank'],
    buckets: [0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 16],
    registers,
  })
  const breakers = new Map<BankCode, () => BreakerState>()
  new Gauge({
    name: 'inflow_bank_breaker_state',
    help: 'Whether requests to a bank are held back: 0 no, 1 one may try, 2 yes.',
    labelNames: ['bank'],
    aggregator: 'max',
    registers,
    collect() {
      for (const [bank, state] of breakers) this.set({ bank }, BREAKER_VALUES[state()])
    },
  })
  const notifications = new Counter({
    name: 'inflow_bank_notifications_total',
    help: 'Notifications of a bank, by what became of them.',
    labelNames: ['bank', 'outcome'],
    registers,
  })
  const last = new Gauge({
    name: 'inflow_bank_last_notification_timestamp_seconds',
    help: 'When a bank last sent an authentic notification to this instance.',
    labelNames: ['bank'],
    aggregator: 'max',
    registers,
  })
  const unmatched = new Counter({
    name: 'inflow_unmatched_payments_total',
    help: 'Payments that were kept as unmatched.',
    labelNames: ['bank'],
    registers,
  })
  const differing = new Counter({
    name: 'inflow_payment_conflicts_total',
    help: 'Payments that were told of otherwise than they are recorded, and kept for a person.',
    labelNames: ['bank'],
    registers,
  })
  const missed = new Counter({
    name: 'inflow_bank_missing_payments_total',
    help: 'Payments that a bank listed and no notification had told of, by what became of them.',
    labelNames: ['bank', 'outcome'],
    registers,
  })
  const reconciled = new Gauge({
    name: 'inflow_bank_last_reconciliation_timestamp_seconds',
    help: 'When this instance last came to the end of asking a bank for missed payments.',
    labelNames: ['bank'],
    aggregator: 'max',
    registers,
  })
  return {
    request(bank, result, durationMs) {
      requests.inc({ bank, result })
      if (result !== 'refused here') seconds.observe({ bank }, durationMs / 1_000)
    },
    breaker: (bank, state) => void breakers.set(bank, state),
    notification(bank, outcome, atMs) {
      notifications.inc({ bank, outcome })
      if (!STRANGE.has(outcome)) last.set({ bank }, atMs / 1_000)
    },
    unmatched: (bank) => unmatched.inc({ bank }),
    differs: (bank) => differing.inc({ bank }),
    missed: (bank, outcome) => missed.inc({ bank, outcome }),
    reconciled: (bank, atMs) => reconciled.set({ bank }, atMs / 1_000),
  }
}
