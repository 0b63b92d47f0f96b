import { z } from 'zod'
import { parsed, type ReadSettings, type Settings, secret } from '../../config/settings.ts'
import { createFields } from '../bank-fields.ts'
import { parsePrivateKey, parsePublicKey } from '../rsa-key.ts'
import { INVALID_RSA_KEY, path, text, timeoutMs, url } from '../settings.ts'

/** The field of an account's number. */
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
   * The field by which `queryOne` finds an account; empty if it finds none. Public integrations send the
   * number. Any other field is of our reference: an opening with an unknown result is then requeried,
   * and not queued for manual review at once.
   */
  FIND_BY: text(/^[A-Za-z]{1,40}$/, 'the name of a field, or none')
    .default(NUMBER_FIELD)
    .transform((field) => (field === 'none' ? '' : field)),
  /**
   * The code with which PalmPay states that it opened no account for our reference, if it has confirmed
   * that to the operator. Without it no response means so: a second account could be opened.
   */
  NOT_OPENED_CODE: text(/^[A-Z0-9_]{1,40}$/, 'a respCode').default(''),
  CREATE_FIELDS: createFields,
  CREATE_PATH: path('api/v2/virtual/account/label/create'),
  FIND_PATH: path('api/v2/virtual/account/label/queryOne'),
  UPDATE_PATH: path('api/v2/virtual/account/label/update'),
  ORDER_PATH: path('api/v2/virtual/order/detail'),
  ORDERS_PATH: path('api/v2/virtual/order/pageList'),
})

export type PalmPaySettings = Settings<typeof PALMPAY_SETTINGS>

export function readPalmPaySettings(read: ReadSettings): PalmPaySettings | undefined {
  return read(PALMPAY_SETTINGS)
}
