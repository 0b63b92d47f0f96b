import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ConfigError, readConfig } from '../../src/config/config.ts'
import { listSettings } from '../../src/config/setting-table.ts'

const DOCS = join(import.meta.dirname, '../../src/docs')
const read = (name: string) => readFileSync(join(DOCS, name), 'utf8')

/** The names that a start looks up with these settings. */
function namesRead(given: NodeJS.ProcessEnv): ReadonlySet<string> {
  const names = new Set<string>()
  const env = new Proxy(given, {
    get(target, name: string) {
      names.add(name)
      return target[name]
    },
  })
  try {
    readConfig(env)
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError)
  }
  return names
}

test('lists exactly the settings that a start reads, and which of them may be files', () => {
  const BANKS = '9PSB=live,SAFEHAVEN=live,PROVIDUS=live,PALMPAY=live'
  const kinds = [
    {},
    { BANK_SAFEHAVEN_ACCOUNT_KIND: 'virtual' },
    { BANK_SAFEHAVEN_ACCOUNT_KIND: 'sub-account' },
    { BANK_9PSB_TRANSFER_ACCOUNT: '1100035911', BANK_PROVIDUS_TRANSFER_ACCOUNT: '1700263070' },
    { BANK_SAFEHAVEN_TRANSFER_ACCOUNT: '0119536307', BANK_SAFEHAVEN_TRANSFER_ACCOUNT_ID: 'id' },
    {
      BANK_PALMPAY_TRANSFER_MERCHANT_ID: '1',
      BANK_PALMPAY_TRANSFER_NOTIFY_URL: 'https://pay.example.com',
    },
  ]
  const names = new Set(kinds.flatMap((kind) => [...namesRead({ BANKS, ...kind })]))
  const listed = listSettings().flatMap(({ name, secret }) =>
    secret ? [name, `${name}_FILE`] : [name],
  )
  expect([...names].sort()).toEqual(listed.sort())
})

test.each([
  ['HTTP_PORT', '8080'],
  ['MIGRATE', 'on'],
  ['PROXY_PROTOCOL', 'off'],
  ['RATE_LIMIT_FAILED', '100/5000'],
  ['WEBHOOK_ALLOWED_CIDRS', ''],
  ['OIDC_ROLES', ''],
  ['BANK_PROVIDUS_NAME', 'Providus Bank'],
  ['BANK_PALMPAY_TIMEOUT_MS', '8000'],
])('the default of %s is "%s"', (name, expected) => {
  expect(listSettings().find((setting) => setting.name === name)?.default).toBe(expected)
})

test('configuration.md documents every setting of the service with its default', () => {
  const rows = [...read('configuration.md').matchAll(/^\| (`[A-Z].*?) \| (.*?) \| .*\|$/gm)]
  const documented = rows.map(([, names = '', defaults = '']) => ({
    names: [...names.matchAll(/`([A-Z0-9_<>]+)`/g)].map(([, name]) => name),
    defaults: defaults.replaceAll('`', ''),
  }))
  for (const { name, bank, default: text, dependent } of listSettings()) {
    if (bank !== undefined || name.startsWith('BANK_')) continue
    const row = documented.find(({ names }) => names.includes(name))
    expect([name, row !== undefined]).toEqual([name, true])
    const expected = text === '' ? /none|any/ : dependent ? '' : text
    expect([name, row?.defaults]).toEqual([
      name,
      typeof expected === 'string'
        ? expect.stringContaining(expected)
        : expect.stringMatching(expected),
    ])
  }
})

test('configuration.md documents no setting that does not exist', () => {
  const known = new Set(
    listSettings().map(({ name }) => name.replace(/^BANK_[^_]+_/, 'BANK_<CODE>_')),
  )
  const rows = read('configuration.md').matchAll(/^\| (`[A-Z].*?) \|/gm)
  const names = [...rows].flatMap(([, cell = '']) => [...cell.matchAll(/`([A-Z0-9_<>]+)`/g)])
  expect(names.map(([, name = '']) => name).filter((name) => !known.has(name))).toEqual([])
})
