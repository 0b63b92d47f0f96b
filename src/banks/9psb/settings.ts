import { z } from 'zod'
import { type ReadSettings, type Settings, secret } from '../../config/settings.ts'
import { createFields } from '../bank-fields.ts'
import { path, readOptional, text, timeoutMs, url } from '../settings.ts'

/** `BANK_9PSB_…`: the settings for requests to 9PSB and for its notifications. */
export const NINE_PSB_SETTINGS = z.object({
  BASE_URL: url.default('https://baas.9psb.com.ng/iva-api/v1/merchant/virtualaccount'),
  TIMEOUT_MS: timeoutMs(15_000, 120_000),
  PUBLIC_KEY: secret(z.string()),
  PRIVATE_KEY: secret(z.string()),
  /** The credentials of the bank's notifications for Basic authentication. Their hash covers the password too. */
  NOTIFICATION_USER: text(/^[^:]+$/, 'a name without a colon'),
  NOTIFICATION_PASSWORD: secret(z.string()),
  /** The description of an account, sent to the bank. */
  DESCRIPTION: z.string().default('Virtual account'),
  CREATE_FIELDS: createFields,
  AUTHENTICATE_PATH: path('authenticate'),
  CREATE_PATH: path('create'),
  CONFIRM_PATH: path('confirmpayment'),
  DEACTIVATE_PATH: path('deactivate'),
})

/**
 * `BANK_9PSB_TRANSFER_…`: the operator's wallet, and the bank's "Wallet as a Service", which has an
 * address and credentials of its own. No public document has the address of production.
 */
export const NINE_PSB_TRANSFER_SETTINGS = z.object({
  TRANSFER_BASE_URL: url,
  TRANSFER_USERNAME: z.string(),
  TRANSFER_PASSWORD: secret(z.string()),
  TRANSFER_CLIENT_ID: z.string(),
  TRANSFER_CLIENT_SECRET: secret(z.string()),
  /** The wallet that is debited. */
  TRANSFER_ACCOUNT: text(/^\d{10}$/, '10 digits'),
  /** The sender's name that the beneficiary sees. */
  TRANSFER_SENDER: z.string(),
  /** Further fields of a transfer; public integrations disagree about those of fees. */
  TRANSFER_FIELDS: createFields,
  TRANSFER_AUTHENTICATE_PATH: path('authenticate'),
  TRANSFER_ENQUIRY_PATH: path('other_banks_enquiry'),
  TRANSFER_PATH: path('wallet_other_banks'),
  TRANSFER_STATUS_PATH: path('wallet_requery'),
  TRANSFER_WALLET_PATH: path('wallet_enquiry'),
})

export type NinePsbTransferSettings = Settings<typeof NINE_PSB_TRANSFER_SETTINGS>

export type NinePsbSettings = NonNullable<ReturnType<typeof readNinePsbSettings>>

export function readNinePsbSettings(read: ReadSettings) {
  const found = read(NINE_PSB_SETTINGS)
  const transfers = readOptional(read, NINE_PSB_TRANSFER_SETTINGS)
  return found && transfers && { ...found, transfers: transfers.given }
}
