import type { BankCode } from '../banks/bank.ts'
import { createInstitutions } from '../banks/institutions.ts'
import type { Config } from '../config/config.ts'
import type { TimeText } from '../core/clock.ts'
import type { Encrypter } from '../crypto/encryption.ts'
import type { Payout } from '../payouts/payout.ts'
import { createPayouts } from '../payouts/payouts.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { simulateTransfer } from '../sandbox/simulate-transfer.ts'
import type { Payments } from './compose-payments.ts'

interface Options {
  readonly config: Config
  readonly encrypter: Encrypter
  readonly payments: Payments
  readonly timeText: TimeText
}

/** Money out: payouts through the banks that can pay. */
export function composePayouts(
  runtime: Runtime,
  { config, encrypter, payments, timeText }: Options,
) {
  const { bankOf, isSimulated, conditions, recordPayment } = payments
  const isReal = (bank: BankCode, live: boolean) => live && !isSimulated(bank)
  return createPayouts(runtime, {
    bankOf,
    encrypter,
    institutions: createInstitutions(config.institutionsFile),
    isOpen: (bank, live) => !isReal(bank, live) || conditions.get(bank)?.().breaker !== 'open',
    onPaid: (payout) => creditOwnAccount(runtime, { timeText, recordPayment, isSimulated }, payout),
    reconcileTimes: config.reconcile,
  })
}

/** A payout by the sandbox to one of our own accounts arrives there, as a real bank would report it; once. */
async function creditOwnAccount(
  runtime: Runtime,
  dependencies: Parameters<typeof simulateTransfer>[1],
  { id, live, bank, destination, amountMinor, sessionId, narration }: Payout,
): Promise<void> {
  if (bank === undefined || sessionId === '' || (live && !dependencies.isSimulated(bank))) return
  const { accountNumber } = destination
  const transfer = { live, accountNumber, amountMinor, sessionId, payerName: narration }
  await simulateTransfer(runtime, dependencies, transfer, id).catch((error: unknown) => {
    runtime.log.debug(
      { err: error, payoutId: id },
      'the beneficiary of a simulated payout is no account of ours',
    )
  })
}
