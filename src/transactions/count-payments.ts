import { Counter, type Registry } from 'prom-client'
import { BANK_CODES, type BankCode } from '../banks/bank.ts'
import { Fault } from '../core/errors.ts'
import { isRetryable } from '../postgres/is-retryable.ts'
import type { RecordResult } from './transaction.ts'

/** Counts the payments that banks, internal services and jobs report. */
export interface PaymentCounter {
  /** Called with the result of each report. Cheap. */
  processed(bank: BankCode, result: RecordResult): void
  failed(bank: BankCode, error: unknown): void
}

/** The mode is that of the account; without a known account it is unknown. */
const MODES = ['live', 'test', 'unknown'] as const

type Mode = (typeof MODES)[number]

const OUTCOMES: Readonly<Record<Mode, readonly Outcome[]>> = {
  live: ['RECORDED', 'DUPLICATE', 'CONFLICT'],
  test: ['RECORDED', 'DUPLICATE', 'CONFLICT'],
  unknown: ['UNMATCHED', 'UNAVAILABLE', 'REFUSED'],
}

type Outcome = RecordResult['outcome'] | 'UNAVAILABLE' | 'REFUSED'

/** Plain numbers, because a prom-client counter would look up its labels for each payment. */
interface Tally {
  readonly counts: Record<Outcome, number>
  amountMinor: bigint
}

/** Every series exists from the start, because Prometheus sees no increase from absent to 1. */
export function createPaymentCounter(register: Registry): PaymentCounter {
  const tallies = Object.fromEntries(
    BANK_CODES.map((bank) => [bank, { live: newTally(), test: newTally(), unknown: newTally() }]),
  ) as Record<BankCode, Record<Mode, Tally>>
  new Counter({
    name: 'inflow_payments_total',
    help: 'Reported payments by outcome; UNAVAILABLE: the database did not respond, REFUSED: it refused the payment.',
    labelNames: ['outcome', 'bank', 'mode'],
    registers: [register],
    collect() {
      this.reset()
      for (const bank of BANK_CODES)
        for (const mode of MODES)
          for (const outcome of OUTCOMES[mode])
            this.inc({ outcome, bank, mode }, tallies[bank][mode].counts[outcome])
    },
  })
  new Counter({
    name: 'inflow_payment_amount_kobo_total',
    help: 'Sum of the recorded payments whose money arrived, in kobo.',
    labelNames: ['bank', 'mode'],
    registers: [register],
    collect() {
      this.reset()
      for (const bank of BANK_CODES)
        for (const mode of ['live', 'test'] as const)
          this.inc({ bank, mode }, Number(tallies[bank][mode].amountMinor))
    },
  })
  return {
    processed(bank, { outcome, transaction }) {
      const tally = tallies[bank][modeOf(transaction)]
      tally.counts[outcome] += 1
      // A payment that was PENDING first is recorded twice; its money arrives once.
      if (outcome === 'RECORDED' && transaction?.status === 'SUCCESS')
        tally.amountMinor += transaction.amountMinor
    },
    failed(bank, error) {
      const isUnavailable =
        error instanceof Fault ? error.reason === 'unavailable' : isRetryable(error)
      tallies[bank].unknown.counts[isUnavailable ? 'UNAVAILABLE' : 'REFUSED'] += 1
    },
  }
}

function modeOf(transaction: RecordResult['transaction']): Mode {
  if (transaction === undefined) return 'unknown'
  return transaction.account.live ? 'live' : 'test'
}

function newTally(): Tally {
  const counts = {
    RECORDED: 0,
    DUPLICATE: 0,
    CONFLICT: 0,
    UNMATCHED: 0,
    UNAVAILABLE: 0,
    REFUSED: 0,
  }
  return { counts, amountMinor: 0n }
}
