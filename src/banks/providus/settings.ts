import { z } from 'zod'
import { choice, type ReadSettings, type Settings, secret } from '../../config/settings.ts'
import { createFields } from '../bank-fields.ts'
import { path, readOptional, text, timeoutMs, url } from '../settings.ts'

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

/**
 * `BANK_PROVIDUS_TRANSFER_…`: the operator's account, and the bank's transfer service, which has an
 * address and credentials of its own.
 */
export const PROVIDUS_TRANSFER_SETTINGS = z.object({
  TRANSFER_BASE_URL: url.default('https://api.providusbank.com'),
  TRANSFER_USERNAME: z.string(),
  TRANSFER_PASSWORD: secret(z.string()),
  /** The account that is debited. */
  TRANSFER_ACCOUNT: text(/^\d{10}$/, '10 digits'),
  /** The sender's name that the beneficiary sees. */
  TRANSFER_SENDER: z.string(),
  TRANSFER_ENQUIRY_PATH: path('GetNIPAccount'),
  TRANSFER_PATH: path('NIPFundTransfer'),
  TRANSFER_STATUS_PATH: path('GetNIPTransactionStatus'),
  /** The same for accounts at Providus itself; the first reads the balance as well. */
  TRANSFER_OWN_ENQUIRY_PATH: path('GetProvidusAccount'),
  TRANSFER_OWN_PATH: path('ProvidusFundTransfer'),
  TRANSFER_OWN_STATUS_PATH: path('GetProvidusTransactionStatus'),
})

export type ProvidusTransferSettings = Settings<typeof PROVIDUS_TRANSFER_SETTINGS>

export type ProvidusSettings = NonNullable<ReturnType<typeof readProvidusSettings>>

export function readProvidusSettings(read: ReadSettings) {
  const found = read(PROVIDUS_SETTINGS)
  const transfers = readOptional(read, PROVIDUS_TRANSFER_SETTINGS)
  return found && transfers && { ...found, transfers: transfers.given }
}
