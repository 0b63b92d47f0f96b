import type { KeyObject } from 'node:crypto'
import { BANK_FACTS } from '../bank.ts'
import { type JsonFields, readCreateFields } from '../create-fields.ts'
import { parsePrivateKey } from '../rsa-key.ts'
import type { SettingReader } from '../settings.ts'

/** What serving Safe Haven needs. */
export interface SafeHavenSettings {
  readonly baseUrl: string
  /** Of one request. */
  readonly timeoutMs: number
  readonly clientId: string
  readonly companyUrl: string
  readonly audience: string
  readonly privateKey: KeyObject
  readonly assertionSeconds: number
  readonly tokenForm: 'form' | 'json'
  /** Ours, for notifications; the secret is added as its last segment. */
  readonly callbackUrl: string
  readonly callbackSecret: string
  readonly account: AccountSettings
  readonly createFields: JsonFields
  readonly paths: SafeHavenPaths
}

/** Which of the two kinds of account is opened, and what they want beside the order. */
export type AccountSettings =
  | {
      readonly kind: 'sub-account'
      readonly identityType: string
      readonly identityNumber: string
      readonly identityId: string
      readonly otp: string
    }
  | {
      readonly kind: 'virtual'
      readonly validForSeconds: number
      readonly settlementBankCode: string
      readonly settlementAccount: string
      readonly amountControl: 'Fixed' | 'UnderPayment' | 'OverPayment'
      readonly amountNaira: number
      /** How often an account is asked for its number, and how long between. */
      readonly pollsMax: number
      readonly pollMs: number
    }

export interface SafeHavenPaths {
  readonly token: string
  readonly subAccounts: string
  readonly accounts: string
  readonly virtualAccounts: string
  readonly transferStatus: string
  readonly virtualStatus: string
}

const PATH = { pattern: /^[\w.~-]+(\/[\w.~-]+)*$/, expects: 'a path below the base URL' }

/** Names begin with `BANK_SAFEHAVEN_`. */
export function readSafeHavenSettings(read: SettingReader): SafeHavenSettings {
  const name = (rest: string) => `BANK_SAFEHAVEN_${rest}`
  const path = (rest: string, fallback: string) =>
    read.text(name(`${rest}_PATH`), { ...PATH, fallback })
  const keyText = read.secret(name('PRIVATE_KEY'))
  const privateKey = parsePrivateKey(keyText)
  if (!privateKey && keyText !== '') {
    read.fault(`${name('PRIVATE_KEY')} must be an RSA key, as PEM or as base64 of its DER`)
  }
  const baseUrl = read.url(name('BASE_URL'), 'https://api.safehavenmfb.com')
  return {
    baseUrl,
    timeoutMs: read.count(name('TIMEOUT_MS'), { fallback: 8_000, min: 100, max: 60_000 }),
    clientId: read.text(name('CLIENT_ID')),
    companyUrl: read.text(name('COMPANY_URL')),
    audience: read.text(name('AUDIENCE'), { fallback: baseUrl }),
    // Settings with a fault never serve anything.
    privateKey: privateKey as KeyObject,
    assertionSeconds: read.count(name('ASSERTION_SECONDS'), {
      fallback: 300,
      min: 30,
      max: 86_400,
    }),
    tokenForm: read.choice(name('TOKEN_FORM'), ['form', 'json'], 'form'),
    callbackUrl: read.url(name('CALLBACK_URL')).replace(/\/+$/, ''),
    callbackSecret: read.secret(name('CALLBACK_SECRET'), {
      pattern: /^[A-Za-z0-9_-]{16,128}$/,
      expects: '16 to 128 letters, digits, - and _',
    }),
    account: readAccount(read, name),
    createFields: readCreateFields(read, name('CREATE_FIELDS')),
    paths: {
      token: path('TOKEN', 'oauth2/token'),
      subAccounts: path('SUB_ACCOUNTS', 'accounts/v2/subaccount'),
      accounts: path('ACCOUNTS', 'accounts'),
      virtualAccounts: path('VIRTUAL_ACCOUNTS', 'virtual-accounts'),
      transferStatus: path('TRANSFER_STATUS', 'transfers/status'),
      virtualStatus: path('VIRTUAL_STATUS', 'virtual-accounts/status'),
    },
  }
}

function readAccount(read: SettingReader, name: (rest: string) => string): AccountSettings {
  const kind = read.choice(name('ACCOUNT_KIND'), ['sub-account', 'virtual'], 'sub-account')
  if (kind === 'sub-account') {
    return {
      kind,
      identityType: read.text(name('IDENTITY_TYPE'), { fallback: 'vID' }),
      identityNumber: read.secret(name('IDENTITY_NUMBER'), { fallback: '' }),
      identityId: read.secret(name('IDENTITY_ID'), { fallback: '' }),
      otp: read.secret(name('IDENTITY_OTP'), { fallback: '' }),
    }
  }
  return {
    kind,
    validForSeconds: read.count(name('VALID_FOR_SECONDS'), {
      fallback: 900,
      min: 60,
      max: 999_999_999,
    }),
    settlementBankCode: read.text(name('SETTLEMENT_BANK_CODE'), {
      fallback: BANK_FACTS.SAFEHAVEN.interbankCode,
    }),
    settlementAccount: read.text(name('SETTLEMENT_ACCOUNT'), {
      pattern: /^\d{10}$/,
      expects: '10 digits',
    }),
    amountControl: read.choice(
      name('AMOUNT_CONTROL'),
      ['Fixed', 'UnderPayment', 'OverPayment'],
      'OverPayment',
    ),
    amountNaira: read.count(name('AMOUNT_NAIRA'), { fallback: 1, min: 1, max: 999_999_999 }),
    pollsMax: read.count(name('POLLS'), { fallback: 10, min: 1, max: 100 }),
    pollMs: read.count(name('POLL_MS'), { fallback: 500, min: 10, max: 10_000 }),
  }
}
