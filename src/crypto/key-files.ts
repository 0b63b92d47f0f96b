import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { readIfPresent, writePrivate } from '../core/private-file.ts'
import type { KeyRing } from './encryption.ts'

/** The file of the current key, and the file of earlier keys: one per line, newest first. */
const CURRENT = 'master.key'
const PREVIOUS = 'master.key.previous'

/** The most earlier keys that may be kept at once. */
export const PREVIOUS_MAX = 5

/**
 * Reads the master keys of the data folder. The first start creates the first key.
 *
 * @throws Error if a file is damaged, or is missing and must exist
 */
export async function readKeyFiles(
  dataDir: string,
  ifMissing: 'create' | 'must exist' = 'create',
): Promise<KeyRing> {
  // A rotation writes the earlier keys first. Reading in this order never misses the current key.
  const [stored] = await readKeys(dataDir, CURRENT)
  const others = await readKeys(dataDir, PREVIOUS)
  if (stored !== undefined) return { current: stored, others }
  if (ifMissing === 'must exist') throw new Error(`${join(dataDir, CURRENT)} does not exist`)
  const current = randomBytes(32)
  await writeKeys(dataDir, CURRENT, [current])
  return { current, others }
}

/** Creates a new current key, and keeps the previous one among the earlier keys. */
export async function replaceKeyFile(dataDir: string): Promise<KeyRing> {
  const { current, others } = await readKeyFiles(dataDir)
  const earlier = [current, ...others.filter((key) => !key.equals(current))]
  if (earlier.length > PREVIOUS_MAX)
    throw new Error(`${PREVIOUS} already contains ${PREVIOUS_MAX} keys`)
  const next = randomBytes(32)
  // A crash between the two writes leaves the current key in both files, which is harmless.
  await writeKeys(dataDir, PREVIOUS, earlier)
  await writeKeys(dataDir, CURRENT, [next])
  return { current: next, others: earlier }
}

/** Deletes the earlier keys. */
export async function dropPreviousKeys(dataDir: string): Promise<void> {
  await writeKeys(dataDir, PREVIOUS, [])
}

async function readKeys(dataDir: string, name: string): Promise<Buffer[]> {
  const text = await readIfPresent(join(dataDir, name))
  const lines = text?.split('\n').filter((line) => line.trim() !== '') ?? []
  if (name === CURRENT && text !== undefined && lines.length !== 1) throw invalidFile(dataDir, name)
  return lines.map((line) => {
    const key = Buffer.from(line.trim(), 'base64')
    if (key.length !== 32) throw invalidFile(dataDir, name)
    return key
  })
}

function writeKeys(dataDir: string, name: string, keys: readonly Buffer[]): Promise<void> {
  return writePrivate(dataDir, name, keys.map((key) => `${key.toString('base64')}\n`).join(''))
}

function invalidFile(dataDir: string, name: string): Error {
  return new Error(`${join(dataDir, name)} does not contain base64 of 32 bytes`)
}
