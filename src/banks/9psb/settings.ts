import { type JsonFields, readCreateFields } from '../create-fields.ts'
import type { SettingReader } from '../settings.ts'

/** How 9PSB is reached, and how it reaches us. */
export interface NinePsbSettings {
  readonly baseUrl: string
  /** Of one request. */
  readonly timeoutMs: number
  readonly publicKey: string
  readonly privateKey: string
  /** What the bank authenticates with when it notifies us; the password is part of its hash too. */
  readonly notificationUser: string
  readonly notificationPassword: string
  /** What an account's description says to the bank. */
  readonly description: string
  readonly createFields: JsonFields
  readonly paths: {
    readonly authenticate: string
    readonly create: string
    readonly confirm: string
    readonly deactivate: string
  }
}

const PRODUCTION = 'https://baas.9psb.com.ng/iva-api/v1/merchant/virtualaccount'

/** Reads the settings `BANK_9PSB_…`. The reader keeps what is wrong with them. */
export function readNinePsbSettings(read: SettingReader): NinePsbSettings {
  const path = (name: string, fallback: string) =>
    read.text(`BANK_9PSB_${name}_PATH`, {
      fallback,
      pattern: /^[\w.~-]+(\/[\w.~-]+)*$/,
      expects: 'a path below the base URL without a leading slash',
    })
  return {
    baseUrl: read.url('BANK_9PSB_BASE_URL', PRODUCTION),
    timeoutMs: read.count('BANK_9PSB_TIMEOUT_MS', { fallback: 15_000, min: 100, max: 120_000 }),
    publicKey: read.secret('BANK_9PSB_PUBLIC_KEY'),
    privateKey: read.secret('BANK_9PSB_PRIVATE_KEY'),
    notificationUser: read.text('BANK_9PSB_NOTIFICATION_USER', {
      pattern: /^[^:]+$/,
      expects: 'a name without a colon',
    }),
    notificationPassword: read.secret('BANK_9PSB_NOTIFICATION_PASSWORD'),
    description: read.text('BANK_9PSB_DESCRIPTION', { fallback: 'Virtual account' }),
    createFields: readCreateFields(read, 'BANK_9PSB_CREATE_FIELDS'),
    paths: {
      authenticate: path('AUTHENTICATE', 'authenticate'),
      create: path('CREATE', 'create'),
      confirm: path('CONFIRM', 'confirmpayment'),
      deactivate: path('DEACTIVATE', 'deactivate'),
    },
  }
}
