import { type JsonFields, readCreateFields } from '../create-fields.ts'
import type { SettingReader } from '../settings.ts'

/** How Providus is reached, and what it means by what it says. */
export interface ProvidusSettings {
  readonly baseUrl: string
  /** Of one request. */
  readonly timeoutMs: number
  readonly clientId: string
  readonly clientSecret: string
  /** Which amount is credited: what the payer sent, or what is left of it after the bank's fee. */
  readonly amountField: 'transactionAmount' | 'settledAmount'
  /**
   * The answer to a notification that the bank itself does not confirm: 03 asks for it again, 02
   * rejects it for good, and the bank logs the money as failed.
   */
  readonly deniedCode: '02' | '03'
  readonly createFields: JsonFields
  readonly paths: {
    readonly create: string
    readonly bySettlement: string
    readonly bySession: string
  }
}

const PRODUCTION = 'https://vps.providusbank.com/vps/api'

/** Reads the settings `BANK_PROVIDUS_…`. The reader keeps what is wrong with them. */
export function readProvidusSettings(read: SettingReader): ProvidusSettings {
  const path = (name: string, fallback: string) =>
    read.text(`BANK_PROVIDUS_${name}_PATH`, {
      fallback,
      pattern: /^[\w.~-]+(\/[\w.~-]+)*$/,
      expects: 'a path below the base URL without a leading slash',
    })
  return {
    baseUrl: read.url('BANK_PROVIDUS_BASE_URL', PRODUCTION),
    timeoutMs: read.count('BANK_PROVIDUS_TIMEOUT_MS', { fallback: 20_000, min: 100, max: 120_000 }),
    clientId: read.text('BANK_PROVIDUS_CLIENT_ID', {
      pattern: /^[\x21-\x7e]+$/,
      expects: 'printable characters without spaces',
    }),
    clientSecret: read.secret('BANK_PROVIDUS_CLIENT_SECRET'),
    amountField: read.choice(
      'BANK_PROVIDUS_AMOUNT_FIELD',
      ['transactionAmount', 'settledAmount'],
      'transactionAmount',
    ),
    deniedCode: read.choice('BANK_PROVIDUS_DENIED_CODE', ['03', '02'], '03'),
    createFields: readCreateFields(read, 'BANK_PROVIDUS_CREATE_FIELDS'),
    paths: {
      create: path('CREATE', 'PiPCreateReservedAccountNumber'),
      bySettlement: path('VERIFY_SETTLEMENT', 'PiPverifyTransaction_settlementid'),
      bySession: path('VERIFY_SESSION', 'PiPverifyTransaction_sessionid'),
    },
  }
}
