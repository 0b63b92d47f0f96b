import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { text, url } from '../../src/banks/settings.ts'
import {
  choice,
  cidrs,
  createSettingReader,
  integer,
  offOn,
  onOff,
  secret,
} from '../../src/config/settings.ts'

const folder = mkdtempSync(join(tmpdir(), 'inflow-settings-'))
const file = join(folder, 'secret')
const empty = join(folder, 'empty')
writeFileSync(file, '  from the file\n')
writeFileSync(empty, '\n')

afterAll(() => rmSync(folder, { recursive: true }))

/** Reads the setting BANK_X_Y. */
function read(env: NodeJS.ProcessEnv, field: z.ZodType) {
  const faults = new Map<string, string>()
  const found = createSettingReader(env, faults, 'BANK_')(z.object({ X_Y: field }))
  return { value: found?.xY, faults: [...faults.values()] }
}

const SECRET = secret(z.string())
const DIGITS = secret(text(/^\d+$/, 'digits'))
const COUNT = integer(1, 7).default(1)
const TOGGLE = choice(['on', 'off']).default('on')

describe('reads a valid value', () => {
  const cases: [string, NodeJS.ProcessEnv, z.ZodType, unknown][] = [
    ['text', { BANK_X_Y: ' a ' }, z.string(), 'a'],
    ['text by default', {}, z.string().default('b'), 'b'],
    ['text that is optional', { BANK_X_Y: ' ' }, z.string().optional(), undefined],
    ['secret', { BANK_X_Y: 's' }, SECRET, 's'],
    ['secret from a file', { BANK_X_Y_FILE: file }, SECRET, 'from the file'],
    ['url', { BANK_X_Y: 'https://10.0.0.1:80/a/' }, url, 'https://10.0.0.1:80/a/'],
    ['http url of this machine', { BANK_X_Y: 'http://127.1.2.3:9' }, url, 'http://127.1.2.3:9'],
    ['http url of ::1', { BANK_X_Y: 'http://[::1]:9' }, url, 'http://[::1]:9'],
    ['choice', { BANK_X_Y: 'off' }, TOGGLE, 'off'],
    ['on or off', { BANK_X_Y: 'off' }, onOff, false],
    ['on by default', {}, onOff, true],
    ['off by default', {}, offOn, false],
    ['integer', { BANK_X_Y: '7' }, COUNT, 7],
    ['ranges', { BANK_X_Y: '10.0.0.0/8, ::1/128' }, cidrs, ['10.0.0.0/8', '::1/128']],
    ['addresses', { BANK_X_Y: '10.0.0.1, ::1' }, cidrs, ['10.0.0.1/32', '::1/128']],
    ['no ranges', {}, cidrs, []],
  ]
  test.each(cases)('%s', (_name, env, field, value) => {
    expect(read(env, field)).toEqual({ value, faults: [] })
  })
})

describe('reports an invalid setting without throwing', () => {
  const range = 'must be ranges such as 10.1.0.0/16,fd00:1::/32, but'
  const cases: [string, NodeJS.ProcessEnv, z.ZodType, string][] = [
    ['missing text', {}, z.string(), 'BANK_X_Y is required'],
    ['text of another form', { BANK_X_Y: 'a' }, DIGITS, 'BANK_X_Y must be digits'],
    ['missing secret', {}, SECRET, 'BANK_X_Y is required'],
    ['file that is not there', { BANK_X_Y_FILE: '/no/such' }, SECRET, 'BANK_X_Y_FILE cannot be'],
    ['empty file', { BANK_X_Y_FILE: empty }, SECRET, 'BANK_X_Y_FILE names an empty file'],
    [
      'both',
      { BANK_X_Y: 'a', BANK_X_Y_FILE: file },
      SECRET,
      'BANK_X_Y and BANK_X_Y_FILE are both set: remove one',
    ],
    ['missing url', {}, url, 'BANK_X_Y is required: a URL'],
    ['url of another scheme', { BANK_X_Y: 'ftp://a' }, url, 'BANK_X_Y must be a URL'],
    ['http url', { BANK_X_Y: 'http://10.0.0.1' }, url, 'BANK_X_Y must be https'],
    ['http url by name', { BANK_X_Y: 'http://127.0.0.1.a' }, url, 'BANK_X_Y must be https'],
    ['url with a user', { BANK_X_Y: 'https://u:p@a' }, url, 'BANK_X_Y must be a URL'],
    ['choice', { BANK_X_Y: 'x' }, TOGGLE, 'BANK_X_Y must be one of on, off'],
    ['too large', { BANK_X_Y: '8' }, COUNT, 'BANK_X_Y must be 1 to 7'],
    ['too small', { BANK_X_Y: '0' }, COUNT, 'BANK_X_Y must be 1 to 7'],
    ['no integer', { BANK_X_Y: '1.5' }, COUNT, 'BANK_X_Y must be 1 to 7'],
    ['range', { BANK_X_Y: '10.0.0.0/8,10.1' }, cidrs, `BANK_X_Y ${range} "10.1" is not one`],
  ]
  test.each(cases)('%s', (_name, env, field, fault) => {
    expect(read(env, field).faults).toEqual([expect.stringContaining(fault)])
  })

  test('without the value of a secret', () => {
    expect(read({ BANK_X_Y: 'hush-hush' }, DIGITS)).toEqual({
      value: undefined,
      faults: ['BANK_X_Y must be digits'],
    })
  })
})
