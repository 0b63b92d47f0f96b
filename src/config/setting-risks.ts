import { BANK_CODES } from '../banks/bank.ts'
import type { Config } from './config.ts'

/** A setting that is valid and dangerous. */
export interface SettingRisk {
  /** What it does, in one line. */
  readonly found: string
  /** What the operator should do. */
  readonly advice: string
}

/** Returns the risks that the log states at each start, and `inflow doctor` in its report. */
export function settingRisks(config: Config): readonly SettingRisk[] {
  const risks: SettingRisk[] = []
  const simulated = simulatedLiveBanks(config)
  if (simulated !== undefined) {
    const banks = simulated.join(', ') || 'no bank at present'
    risks.push({
      found: `ALLOW_SIMULATED_LIVE_ACCOUNTS is on: the sandbox opens live accounts at ${banks}; their numbers may be strangers' accounts`,
      advice: 'switch it off where customers get account numbers, and set BANKS to the live banks',
    })
  }
  for (const [code, bank] of Object.entries(config.liveBanks)) {
    if (bank.requery) continue
    risks.push({
      found: `BANK_${code}_REQUERY is off: payments at ${code} are credited by the signature of the notification alone`,
      advice: `set BANK_${code}_REQUERY=on, unless the bank cannot be asked`,
    })
  }
  if (config.workers > 1 && config.opsPort === undefined) {
    risks.push({
      found: `WORKERS is ${config.workers} and OPS_PORT is not set: /metrics and /readyz come from whichever worker responds`,
      advice: 'set OPS_PORT: each worker serves its own there, or at one of the ports after it',
    })
  }
  return risks
}

/**
 * The banks whose live accounts the sandbox opens by `ALLOW_SIMULATED_LIVE_ACCOUNTS`; undefined if it is
 * off, or has no effect in embedded mode.
 */
export function simulatedLiveBanks(config: Config): readonly string[] | undefined {
  if (config.databaseUrl === undefined || !config.allowSimulatedLiveAccounts) return undefined
  return BANK_CODES.filter((code) => config.banks[code] === 'sandbox')
}
