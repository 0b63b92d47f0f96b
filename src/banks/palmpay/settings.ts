import type { KeyObject } from 'node:crypto'
import { type JsonFields, readCreateFields } from '../create-fields.ts'
import { parsePrivateKey, parsePublicKey } from '../rsa-key.ts'
import type { SettingReader } from '../settings.ts'

/** What serving PalmPay needs. The keys stay inside node: printing them shows nothing. */
export interface PalmPaySettings {
  readonly baseUrl: string
  /** Of one request. */
  readonly timeoutMs: number
  readonly appId: string
  readonly privateKey: KeyObject
  /** PalmPay's own, which its notifications are verified with. */
  readonly publicKey: KeyObject
  readonly countryCode: string
  readonly version: string
  /**
   * The field by which `queryOne` finds an account by our reference; '' where it cannot, and then a
   * person has to look after an opening without a clear end.
   */
  readonly findBy: string
  readonly createFields: JsonFields
  readonly paths: PalmPayPaths
}

export interface PalmPayPaths {
  readonly create: string
  readonly find: string
  readonly update: string
  readonly order: string
  readonly orders: string
}

const PATH = { pattern: /^[\w.~-]+(\/[\w.~-]+)*$/, expects: 'a path below the base URL' }

/** Names begin with `BANK_PALMPAY_`. */
export function readPalmPaySettings(read: SettingReader): PalmPaySettings {
  const name = (rest: string) => `BANK_PALMPAY_${rest}`
  const path = (rest: string, fallback: string) =>
    read.text(name(`${rest}_PATH`), { ...PATH, fallback })
  const privateKey = keyOf(read, name('PRIVATE_KEY'), parsePrivateKey)
  const publicKey = keyOf(read, name('PUBLIC_KEY'), parsePublicKey)
  const findBy = read.text(name('FIND_BY'), {
    fallback: 'accountReference',
    pattern: /^[A-Za-z]{1,40}$/,
    expects: 'the name of a field, or none',
  })
  return {
    baseUrl: read.url(name('BASE_URL'), 'https://open-gw-prod.palmpay-inc.com'),
    timeoutMs: read.count(name('TIMEOUT_MS'), { fallback: 8_000, min: 100, max: 60_000 }),
    appId: read.text(name('APP_ID'), { pattern: /^[\x21-\x7e]{1,100}$/, expects: 'an app id' }),
    privateKey,
    publicKey,
    countryCode: read.text(name('COUNTRY_CODE'), { fallback: 'NG' }),
    version: read.text(name('VERSION'), { fallback: 'V2.0' }),
    findBy: findBy === 'none' ? '' : findBy,
    createFields: readCreateFields(read, name('CREATE_FIELDS')),
    paths: {
      create: path('CREATE', 'api/v2/virtual/account/label/create'),
      find: path('FIND', 'api/v2/virtual/account/label/queryOne'),
      update: path('UPDATE', 'api/v2/virtual/account/label/update'),
      order: path('ORDER', 'api/v2/virtual/order/detail'),
      orders: path('ORDERS', 'api/v2/virtual/order/pageList'),
    },
  }
}

function keyOf(
  read: SettingReader,
  name: string,
  parse: (text: string) => KeyObject | undefined,
): KeyObject {
  const text = read.secret(name)
  const key = parse(text)
  if (!key && text !== '') read.fault(`${name} must be an RSA key, as PEM or as base64 of its DER`)
  // Settings with a fault never serve anything.
  return key as KeyObject
}
