import { z } from 'zod'
import { parsed, type ReadSettings, type Settings, secret } from '../../config/settings.ts'
import { createFields } from '../bank-fields.ts'
import {
  INVALID_RSA_KEY,
  parsePrivateKey,
  parsePublicKey,
  path,
  readOptional,
  text,
  timeoutMs,
  url,
} from '../settings.ts'

/** The name of the field with the number of an account. */
export const NUMBER_FIELD = 'virtualAccountNo'

/** `BANK_PALMPAY_…`. The keys are KeyObjects, which do not show the key when printed. */
export const PALMPAY_SETTINGS = z.object({
  BASE_URL: url.default('https://open-gw-prod.palmpay-inc.com'),
  TIMEOUT_MS: timeoutMs(8_000, 60_000),
  APP_ID: text(/^[\x21-\x7e]{1,100}$/, 'an app id'),
  PRIVATE_KEY: secret(parsed(parsePrivateKey, INVALID_RSA_KEY)),
  /** PalmPay's public key, which verifies its notifications. */
  PUBLIC_KEY: secret(parsed(parsePublicKey, INVALID_RSA_KEY)),
  COUNTRY_CODE: z.string().default('NG'),
  VERSION: z.string().default('V2.0'),
  /**
   * The field by which `queryOne` finds an account; empty if it cannot find accounts. Public integrations send the
   * account number. Any other field must contain our reference: an opening with an unknown result is then requeried
   * before it goes to manual review.
   */
  FIND_BY: text(/^[A-Za-z]{1,40}$/, 'the name of a field, or none')
    .default(NUMBER_FIELD)
    .transform((field) => (field === 'none' ? '' : field)),
  /**
   * The code with which PalmPay states that it opened no account for our reference, if PalmPay has confirmed the code to the
   * operator. Without it, no response proves that nothing was opened, because a retry could open a second account.
   */
  NOT_OPENED_CODE: text(/^[A-Z0-9_]{1,40}$/, 'a respCode').default(''),
  CREATE_FIELDS: createFields,
  CREATE_PATH: path('api/v2/virtual/account/label/create'),
  FIND_PATH: path('api/v2/virtual/account/label/queryOne'),
  UPDATE_PATH: path('api/v2/virtual/account/label/update'),
  ORDER_PATH: path('api/v2/virtual/order/detail'),
  ORDERS_PATH: path('api/v2/virtual/order/pageList'),
})

/** `BANK_PALMPAY_TRANSFER_…`: payouts out of the operator's balance at PalmPay. */
export const PALMPAY_TRANSFER_SETTINGS = z.object({
  TRANSFER_MERCHANT_ID: text(/^[\x21-\x7e]{1,100}$/, 'a merchant id'),
  /** PalmPay requires a URL for each payout; its notification is acknowledged and not used. */
  TRANSFER_NOTIFY_URL: url,
  TRANSFER_ENQUIRY_PATH: path('api/v2/payment/merchant/payout/queryBankAccount'),
  /** For accounts at PalmPay itself. */
  TRANSFER_OWN_ENQUIRY_PATH: path('api/v2/payment/merchant/payout/queryAccount'),
  TRANSFER_PATH: path('api/v2/merchant/payment/payout'),
  TRANSFER_STATUS_PATH: path('api/v2/merchant/payment/queryPayStatus'),
  TRANSFER_BALANCE_PATH: path('api/v2/merchant/manage/account/queryBalance'),
})

export type PalmPayTransferSettings = Settings<typeof PALMPAY_TRANSFER_SETTINGS>

export type PalmPaySettings = NonNullable<ReturnType<typeof readPalmPaySettings>>

export function readPalmPaySettings(read: ReadSettings) {
  const found = read(PALMPAY_SETTINGS)
  const transfers = readOptional(read, PALMPAY_TRANSFER_SETTINGS)
  return found && transfers && { ...found, transfers: transfers.given }
}
