import { z } from 'zod'
import { choice, type ReadSettings, type Settings, secret } from '../../config/settings.ts'
import { createFields } from '../bank-fields.ts'
import { path, text, timeoutMs, url } from '../settings.ts'

/** `BANK_PROVIDUS_…` */
export const PROVIDUS_SETTINGS = z.object({
  BASE_URL: url.default('https://vps.providusbank.com/vps/api'),
  TIMEOUT_MS: timeoutMs(20_000, 120_000),
  CLIENT_ID: text(/^[\x21-\x7e]+$/, 'printable characters without spaces'),
  CLIENT_SECRET: secret(z.string()),
  /** The credited amount: what the payer sent, or the rest after the bank's fee. */
  AMOUNT_FIELD: choice(['transactionAmount', 'settledAmount']).default('transactionAmount'),
  /**
   * The response code for a payment that the bank does not confirm: 03 makes the bank retry; 02
   * rejects it for good, and the bank records the payment as failed.
   */
  DENIED_CODE: choice(['03', '02']).default('03'),
  CREATE_FIELDS: createFields,
  CREATE_PATH: path('PiPCreateReservedAccountNumber'),
  VERIFY_SETTLEMENT_PATH: path('PiPverifyTransaction_settlementid'),
  VERIFY_SESSION_PATH: path('PiPverifyTransaction_sessionid'),
})

export type ProvidusSettings = Settings<typeof PROVIDUS_SETTINGS>

export function readProvidusSettings(read: ReadSettings): ProvidusSettings | undefined {
  return read(PROVIDUS_SETTINGS)
}
