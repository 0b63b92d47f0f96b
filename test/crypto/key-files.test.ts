import { existsSync } from 'node:fs'
import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import {
  dropPreviousKeys,
  PREVIOUS_MAX,
  readKeyFiles,
  replaceKeyFile,
} from '../../src/crypto/key-files.ts'
import { temporaryFolder } from '../support/folder.ts'

async function dataFolder(files: Record<string, string> = {}): Promise<string> {
  const folder = temporaryFolder()
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text)
  return folder
}

const key = (byte: number) => Buffer.alloc(32, byte)
const line = (byte: number) => `${key(byte).toString('base64')}\n`

describe('the key files', () => {
  test('are created by the first start, and the same keys are read ever after', async () => {
    const folder = await dataFolder()
    const first = await readKeyFiles(folder)
    expect(first.current).toHaveLength(32)
    expect(first.others).toEqual([])
    expect(await readKeyFiles(folder)).toEqual(first)
    expect(await readKeyFiles(folder, 'must exist')).toEqual(first)
    const { mode } = await stat(join(folder, 'master.key'))
    expect(mode & 0o777).toBe(0o600)
    expect((await readKeyFiles(await dataFolder())).current).not.toEqual(first.current)
  })

  test('are not created where they must exist', async () => {
    const folder = await dataFolder()
    await expect(readKeyFiles(folder, 'must exist')).rejects.toThrow('master.key does not exist')
    expect(existsSync(join(folder, 'master.key'))).toBe(false)
  })

  test('may have empty lines and spaces around keys', async () => {
    const folder = await dataFolder({
      'master.key': `\n  ${line(1)} \n`,
      'master.key.previous': `${line(2)}\r\n\n \n ${line(3)}`,
    })
    expect(await readKeyFiles(folder)).toEqual({ current: key(1), others: [key(2), key(3)] })
  })

  test.each([
    ['empty', { 'master.key': '' }],
    ['of two keys', { 'master.key': line(1) + line(2) }],
    ['of a short key', { 'master.key': `${Buffer.alloc(31).toString('base64')}\n` }],
    ['of a long key', { 'master.key': `${Buffer.alloc(33).toString('base64')}\n` }],
    ['of no key', { 'master.key': 'secret\n' }],
    ['of a short earlier key', { 'master.key': line(1), 'master.key.previous': 'c2hvcnQ=\n' }],
  ])('are refused, and left alone, if one is damaged: %s', async (_what, files) => {
    const folder = await dataFolder(files)
    const name = 'master.key.previous' in files ? 'master.key.previous' : 'master.key'
    const message = `${join(folder, name)} does not contain base64 of 32 bytes`
    await expect(readKeyFiles(folder)).rejects.toMatchObject({ message })
    expect(await readFile(join(folder, 'master.key'), 'utf8')).toBe(files['master.key'])
  })
})

describe('a new master key', () => {
  test('becomes the current one, and the earlier ones are kept, newest first', async () => {
    const folder = await dataFolder({ 'master.key': line(1), 'master.key.previous': line(2) })
    const replaced = await replaceKeyFile(folder)
    expect(replaced.others).toEqual([key(1), key(2)])
    expect(replaced.current).toHaveLength(32)
    expect(replaced.current).not.toEqual(key(1))
    expect(await readKeyFiles(folder)).toEqual(replaced)
  })

  test('after a crash in the middle of the replacement keeps the current key once', async () => {
    const folder = await dataFolder({
      'master.key': line(1),
      'master.key.previous': line(1) + line(2),
    })
    expect((await replaceKeyFile(folder)).others).toEqual([key(1), key(2)])
  })

  test('is refused while the most earlier keys are kept, and no key is lost', async () => {
    const bytes = Array.from({ length: PREVIOUS_MAX }, (_, at) => at + 2)
    const folder = await dataFolder({
      'master.key': line(1),
      'master.key.previous': bytes.slice(1).map(line).join(''),
    })
    const full = await replaceKeyFile(folder)
    expect(full.others).toHaveLength(PREVIOUS_MAX)
    await expect(replaceKeyFile(folder)).rejects.toThrow(`contains ${PREVIOUS_MAX} keys`)
    expect(await readKeyFiles(folder)).toEqual(full)
  })

  test('stands alone when the earlier ones are dropped', async () => {
    const folder = await dataFolder({ 'master.key': line(1), 'master.key.previous': line(2) })
    await dropPreviousKeys(folder)
    expect(await readKeyFiles(folder)).toEqual({ current: key(1), others: [] })
  })
})
