import { z } from 'zod'
import {
  choice,
  integer,
  parsed,
  type ReadSettings,
  type Settings,
  secret,
} from '../../config/settings.ts'
import { BANK_FACTS } from '../bank.ts'
import { createFields } from '../bank-fields.ts'
import {
  INVALID_RSA_KEY,
  parsePrivateKey,
  path,
  readOptional,
  text,
  timeoutMs,
  url,
} from '../settings.ts'

/** `BANK_SAFEHAVEN_…` */
const SETTINGS = z.object({
  BASE_URL: url.default('https://api.safehavenmfb.com'),
  TIMEOUT_MS: timeoutMs(8_000, 60_000),
  CLIENT_ID: z.string(),
  COMPANY_URL: z.string(),
  /** The audience of the client assertion; default: the base URL. */
  AUDIENCE: z.string().optional(),
  PRIVATE_KEY: secret(parsed(parsePrivateKey, INVALID_RSA_KEY)),
  ASSERTION_SECONDS: integer(30, 86_400).default(300),
  TOKEN_FORM: choice(['form', 'json']).default('form'),
  /** Our URL for notifications; the secret is appended as its last segment. */
  CALLBACK_URL: url.transform((given) => given.replace(/\/+$/, '')),
  CALLBACK_SECRET: secret(text(/^[A-Za-z0-9_-]{16,128}$/, '16 to 128 letters, digits, - and _')),
  CREATE_FIELDS: createFields,
  TOKEN_PATH: path('oauth2/token'),
  SUB_ACCOUNTS_PATH: path('accounts/v2/subaccount'),
  ACCOUNTS_PATH: path('accounts'),
  VIRTUAL_ACCOUNTS_PATH: path('virtual-accounts'),
  TRANSFER_STATUS_PATH: path('transfers/status'),
  VIRTUAL_STATUS_PATH: path('virtual-accounts/status'),
})

/** The kind of account to open. */
const KIND = z.object({
  ACCOUNT_KIND: choice(['sub-account', 'virtual']).default('sub-account'),
})

/** Whose identity opens sub-accounts if the request has none, because the bank requires an identity. */
const SUB_ACCOUNT = z.object({
  IDENTITY: choice(['operator', 'customer']).default('operator'),
})

/** A completed verification of the operator at the bank, which can be used again. */
const OPERATOR = z.object({
  IDENTITY_ID: secret(
    z.string(
      "is required: the id of the operator's verification at the bank; or set BANK_SAFEHAVEN_IDENTITY=customer, and every request for an account has the customer's",
    ),
  ),
})

const VIRTUAL = z.object({
  VALID_FOR_SECONDS: integer(60, 999_999_999).default(900),
  SETTLEMENT_BANK_CODE: z.string().default(BANK_FACTS.SAFEHAVEN.interbankCode),
  SETTLEMENT_ACCOUNT: text(/^\d{10}$/, '10 digits'),
  AMOUNT_CONTROL: choice(['Fixed', 'UnderPayment', 'OverPayment']).default('OverPayment'),
  AMOUNT_NAIRA: integer(1, 999_999_999).default(1),
  /** How often, and at which interval, the bank is polled for an account number. */
  POLLS: integer(1, 100).default(10),
  POLL_MS: integer(10, 10_000).default(500),
})

/** `BANK_SAFEHAVEN_TRANSFER_…`: the operator's account, out of which payouts are sent. */
const TRANSFERS = z.object({
  TRANSFER_ACCOUNT: text(/^\d{10}$/, '10 digits'),
  /** The bank's own id of that account, by which it lists transfers and states the balance. */
  TRANSFER_ACCOUNT_ID: text(/^[A-Za-z0-9_-]{1,64}$/, 'an id of an account'),
  TRANSFER_ENQUIRY_PATH: path('transfers/name-enquiry'),
  TRANSFERS_PATH: path('transfers'),
  /** The field with the spendable balance of an account; public integrations disagree on its name. */
  TRANSFER_BALANCE_FIELD: text(/^[A-Za-z]{1,40}$/, 'the name of a field').default('accountBalance'),
})

/** All groups. The kind of account determines which of them are read. */
export const SAFEHAVEN_GROUPS = [SETTINGS, KIND, SUB_ACCOUNT, OPERATOR, VIRTUAL, TRANSFERS] as const

export type SafeHavenSettings = NonNullable<ReturnType<typeof readSafeHavenSettings>>

export type SafeHavenTransferSettings = Settings<typeof TRANSFERS>

/** Settings for the chosen kind of account. */
export type AccountSettings = NonNullable<ReturnType<typeof readAccount>>

export function readSafeHavenSettings(read: ReadSettings) {
  const found = read(SETTINGS)
  const account = readAccount(read)
  const transfers = readOptional(read, TRANSFERS)
  if (!found || !account || !transfers) return undefined
  return {
    ...found,
    audience: found.audience ?? found.baseUrl,
    account,
    transfers: transfers.given,
  }
}

/** Ignores the settings of the other kind of account. */
function readAccount(read: ReadSettings) {
  const kind = read(KIND)?.accountKind
  if (kind === undefined) return undefined
  if (kind === 'virtual') {
    const virtual = read(VIRTUAL)
    return virtual && { kind, ...virtual }
  }
  const identity = read(SUB_ACCOUNT)?.identity
  if (identity === 'customer') return { kind, operatorIdentityId: undefined }
  const operator = identity && read(OPERATOR)
  return operator && { kind, operatorIdentityId: operator.identityId }
}
