import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import { BANK_CODES, type BankCode, type NotificationOutcome } from './bank.ts'
import type { BreakerState } from './http/circuit-breaker.ts'
import type { RequestResult } from './http/create-bank-http.ts'

export type BankMetrics = ReturnType<typeof createBankMetrics>

const BREAKER_VALUES: Readonly<Record<BreakerState, number>> = {
  closed: 0,
  'half-open': 1,
  open: 2,
}

/** Every outcome of a notification, and `REFUSED`: its address is not allowed. */
const OUTCOMES: readonly (NotificationOutcome | 'REFUSED')[] = [
  'RECORDED',
  'DUPLICATE',
  'UNMATCHED',
  'MANUAL_REVIEW',
  'IGNORED',
  'UNAUTHENTICATED',
  'UNCONFIRMED',
  'RETRY',
  'REFUSED',
]

/** Outcomes that any caller can cause, so they do not show that the bank is alive. */
const UNTRUSTED_OUTCOMES = new Set<string>(['UNAUTHENTICATED', 'REFUSED'])

/** The metrics of the banks. */
export function createBankMetrics(register: Registry) {
  const registers = [register]
  const requests = new Counter({
    name: 'inflow_bank_requests_total',
    help: 'Requests to a bank by result: the class of the status, or why there was no response.',
    labelNames: ['bank', 'result'],
    registers,
  })
  const seconds = new Histogram({
    name: 'inflow_bank_request_duration_seconds',
    help: 'Duration of requests to a bank, without those rejected before sending.',
    labelNames: ['bank'],
    buckets: [0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 16],
    registers,
  })
  const breakers = new Map<BankCode, () => BreakerState>()
  new Gauge({
    name: 'inflow_bank_breaker_state',
    help: 'State of the circuit breaker of a bank: 0 closed, 1 half-open, 2 open.',
    labelNames: ['bank'],
    registers,
    collect() {
      for (const [bank, state] of breakers) this.set({ bank }, BREAKER_VALUES[state()])
    },
  })
  const denials = new Map<BankCode, () => boolean>()
  new Gauge({
    name: 'inflow_bank_access_denied',
    help: 'Whether a bank denied the latest call access: wrong credentials, signature or address.',
    labelNames: ['bank'],
    registers,
    collect() {
      for (const [bank, isDenied] of denials) this.set({ bank }, Number(isDenied()))
    },
  })
  const notifications = new Counter({
    name: 'inflow_bank_notifications_total',
    help: 'Notifications from a bank by outcome.',
    labelNames: ['bank', 'outcome'],
    registers,
  })
  const last = new Gauge({
    name: 'inflow_bank_last_notification_timestamp_seconds',
    help: 'Time of the last authentic notification from a bank to this instance.',
    labelNames: ['bank'],
    registers,
  })
  const unmatched = new Counter({
    name: 'inflow_unmatched_payments_total',
    help: 'Payments recorded as unmatched: no open account has their account number.',
    labelNames: ['bank'],
    registers,
  })
  const conflicts = new Counter({
    name: 'inflow_payment_conflicts_total',
    help: 'Reported payments that conflict with the recorded one, queued for manual review.',
    labelNames: ['bank'],
    registers,
  })
  const missing = new Counter({
    name: 'inflow_bank_missing_payments_total',
    help: 'Payments that a bank listed but had not notified, by outcome.',
    labelNames: ['bank', 'outcome'],
    registers,
  })
  const reconciled = new Gauge({
    name: 'inflow_bank_last_reconciliation_timestamp_seconds',
    help: 'Time when this instance last finished a reconciliation run of a bank.',
    labelNames: ['bank'],
    registers,
  })
  // All series begin at 0, because Prometheus does not count the step from absent to 1 as an increase.
  for (const bank of BANK_CODES) {
    for (const counter of [unmatched, conflicts]) counter.inc({ bank }, 0)
    for (const outcome of OUTCOMES) {
      notifications.inc({ bank, outcome }, 0)
      if (!UNTRUSTED_OUTCOMES.has(outcome)) missing.inc({ bank, outcome }, 0)
    }
  }
  return {
    request(bank: BankCode, result: RequestResult, durationMs: number): void {
      requests.inc({ bank, result })
      if (result !== 'rejected') seconds.observe({ bank }, durationMs / 1_000)
    },
    /** @param state called whenever the metrics are collected */
    breaker: (bank: BankCode, state: () => BreakerState) => void breakers.set(bank, state),
    /** @param isDenied called whenever the metrics are collected */
    accessDenied: (bank: BankCode, isDenied: () => boolean) => void denials.set(bank, isDenied),
    /** @param outcome the result of the notification; `REFUSED` if it was rejected before it was read */
    notification(bank: BankCode, outcome: string, atMs: number): void {
      notifications.inc({ bank, outcome })
      if (!UNTRUSTED_OUTCOMES.has(outcome)) last.set({ bank }, atMs / 1_000)
    },
    unmatched: (bank: BankCode): void => unmatched.inc({ bank }),
    /** A reported payment conflicts with the recorded one. */
    conflict: (bank: BankCode): void => conflicts.inc({ bank }),
    /** @param outcome the result of a listed payment that the bank had not notified */
    missing: (bank: BankCode, outcome: string): void => missing.inc({ bank, outcome }),
    /** A reconciliation run of the bank finished. */
    reconciled: (bank: BankCode, atMs: number): void => reconciled.set({ bank }, atMs / 1_000),
  }
}
