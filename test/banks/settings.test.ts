import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { createSettingReader, type SettingReader } from '../../src/banks/settings.ts'

const folder = mkdtempSync(join(tmpdir(), 'inflow-settings-'))
const file = join(folder, 'secret')
const empty = join(folder, 'empty')
writeFileSync(file, '  from the file\n')
writeFileSync(empty, '\n')

afterAll(() => rmSync(folder, { recursive: true }))

function read<T>(env: NodeJS.ProcessEnv, how: (read: SettingReader) => T) {
  const faults: string[] = []
  return { value: how(createSettingReader(env, faults)), faults }
}

describe('a right value is read', () => {
  const cases: [string, NodeJS.ProcessEnv, (read: SettingReader) => unknown, unknown][] = [
    ['text', { X: ' a ' }, (r) => r.text('X'), 'a'],
    ['text by default', {}, (r) => r.text('X', { fallback: 'b' }), 'b'],
    ['text that is optional', { X: ' ' }, (r) => r.text('X', { fallback: '' }), ''],
    ['secret', { X: 's' }, (r) => r.secret('X'), 's'],
    ['secret from a file', { X_FILE: file }, (r) => r.secret('X'), 'from the file'],
    [
      'url',
      { X: 'http://10.0.0.1:80/a/' },
      (r) => r.url('X', 'https://b'),
      'http://10.0.0.1:80/a/',
    ],
    ['url by default', {}, (r) => r.url('X', 'https://b'), 'https://b'],
    ['choice', { X: 'off' }, (r) => r.choice('X', ['on', 'off'], 'on'), 'off'],
    ['choice by default', {}, (r) => r.choice('X', ['on', 'off'], 'on'), 'on'],
    ['count', { X: '7' }, (r) => r.count('X', { fallback: 1, min: 1, max: 7 }), 7],
    ['cidrs', { X: '10.0.0.0/8, ::1/128' }, (r) => r.cidrs('X'), ['10.0.0.0/8', '::1/128']],
    ['no cidrs', {}, (r) => r.cidrs('X'), []],
  ]
  test.each(cases)('%s', (_name, env, how, value) => {
    expect(read(env, how)).toEqual({ value, faults: [] })
  })
})

describe('a wrong one is told of by its name, and nothing throws', () => {
  const cases: [string, NodeJS.ProcessEnv, (read: SettingReader) => unknown, string][] = [
    ['missing text', {}, (r) => r.text('X'), 'X is required'],
    [
      'text of another form',
      { X: 'a' },
      (r) => r.text('X', { pattern: /^\d+$/, expects: 'digits' }),
      'X must be digits',
    ],
    ['missing secret', {}, (r) => r.secret('X'), 'X is required'],
    [
      'file that is not there',
      { X_FILE: '/no/such' },
      (r) => r.secret('X'),
      'X_FILE cannot be read',
    ],
    ['empty file', { X_FILE: empty }, (r) => r.secret('X'), 'X_FILE names an empty file'],
    ['both', { X: 'a', X_FILE: file }, (r) => r.secret('X'), 'X and X_FILE are set'],
    ['missing url', {}, (r) => r.url('X'), 'X is required'],
    ['url of another scheme', { X: 'ftp://a' }, (r) => r.url('X'), 'X must be a URL'],
    ['url with a user', { X: 'https://u:p@a' }, (r) => r.url('X'), 'X must be a URL'],
    ['url with a query', { X: 'https://a?b' }, (r) => r.url('X'), 'X must be a URL'],
    ['choice', { X: 'x' }, (r) => r.choice('X', ['on', 'off'], 'on'), 'X must be one of on, off'],
    ['count', { X: '8' }, (r) => r.count('X', { fallback: 1, min: 1, max: 7 }), 'X must be 1 to 7'],
    [
      'count',
      { X: '1.5' },
      (r) => r.count('X', { fallback: 1, min: 1, max: 7 }),
      'X must be 1 to 7',
    ],
    ['cidr', { X: '10.0.0.0/8,10.0.0.1' }, (r) => r.cidrs('X'), 'X must be ranges'],
    ['own', {}, (r) => r.fault('A is required with B'), 'A is required with B'],
  ]
  test.each(cases)('%s', (_name, env, how, fault) => {
    expect(read(env, how).faults).toEqual([expect.stringContaining(fault)])
  })

  test('a secret is never part of what is told', () => {
    const { faults } = read({ X: 'hush-hush' }, (r) =>
      r.secret('X', { pattern: /^\d+$/, expects: 'digits' }),
    )
    expect(faults).toEqual(['X must be digits'])
  })
})
