import { BANK_CODES, type BankCode } from './banks/bank.ts'
import type { Connectors } from './banks/connectors.ts'
import { type LiveBank, readLiveBank } from './banks/live-bank.ts'
import { createSettingReader } from './banks/settings.ts'

/** How a bank is served: by the simulated one, or by the connector to the real one. */
export type BankMode = 'sandbox' | 'live'

/** `9PSB=live,PALMPAY=sandbox`: what is not named is `sandbox`. */
export function parseBanks(
  text: string | undefined,
  connectors: Connectors,
): Record<BankCode, BankMode> {
  const banks = Object.fromEntries(BANK_CODES.map((code) => [code, 'sandbox'])) as Record<
    BankCode,
    BankMode
  >
  for (const pair of text?.split(',') ?? []) {
    const [code = '', mode = ''] = pair.split('=').map((part) => part.trim())
    if (!BANK_CODES.includes(code as BankCode)) {
      throw new Error(`names an unknown bank "${code}"; known: ${BANK_CODES.join(', ')}`)
    }
    if (mode === 'live' && connectors[code as BankCode] === undefined) {
      throw new Error(`asks for ${code}=live, and this version serves the sandbox only`)
    }
    if (mode !== 'sandbox' && mode !== 'live')
      throw new Error(`must say ${code}=sandbox or ${code}=live`)
    banks[code as BankCode] = mode
  }
  return banks
}

/** @param banks undefined when it is at fault itself */
export function readLiveBanks(
  env: NodeJS.ProcessEnv,
  faults: string[],
  banks: Readonly<Record<BankCode, BankMode>> | undefined,
  connectors: Connectors,
): Readonly<Partial<Record<BankCode, LiveBank>>> {
  const reader = createSettingReader(env, faults)
  const live: Partial<Record<BankCode, LiveBank>> = {}
  for (const code of BANK_CODES) {
    const prepare = connectors[code]
    if (banks?.[code] === 'live' && prepare) live[code] = readLiveBank(code, prepare, reader)
  }
  return live
}
