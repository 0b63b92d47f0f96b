import type { z } from 'zod'
import { NINE_PSB_SETTINGS } from './9psb/settings.ts'
import type { BankCode } from './bank.ts'
import { LIVE_BANK_SETTINGS } from './live-bank.ts'
import { PALMPAY_SETTINGS } from './palmpay/settings.ts'
import { PROVIDUS_SETTINGS } from './providus/settings.ts'
import { SAFEHAVEN_GROUPS } from './safehaven/settings.ts'

/** The groups of settings of each live bank, whose names begin with `BANK_<CODE>_`. */
export const CONNECTOR_SETTINGS: Readonly<Record<BankCode, readonly z.ZodObject[]>> = {
  '9PSB': [NINE_PSB_SETTINGS, LIVE_BANK_SETTINGS],
  SAFEHAVEN: [...SAFEHAVEN_GROUPS, LIVE_BANK_SETTINGS],
  PROVIDUS: [PROVIDUS_SETTINGS, LIVE_BANK_SETTINGS],
  PALMPAY: [PALMPAY_SETTINGS, LIVE_BANK_SETTINGS],
}
