import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { readIfPresent, writePrivate } from '../core/private-file.ts'
import type { KeyRing } from './encryption.ts'

/** The key that encrypts, and beside it those that it followed, one a line, the latest first. */
const CURRENT = 'master.key'
const PREVIOUS = 'master.key.previous'

/** How many earlier keys may be known at once. */
export const PREVIOUS_MAX = 5

/**
 * The master keys of the data folder; the first is made at the first start.
 *
 * @throws Error when a file is damaged, or is not there and must be
 */
export async function readKeyFiles(
  dataDir: string,
  absent: 'make it' | 'must exist' = 'make it',
): Promise<KeyRing> {
  // In this order: a rotation writes the earlier keys first, so the current one is never missed.
  const [kept] = await readKeys(dataDir, CURRENT)
  const others = await readKeys(dataDir, PREVIOUS)
  if (kept !== undefined) return { current: kept, others }
  if (absent === 'must exist') throw new Error(`${join(dataDir, CURRENT)} is not there`)
  const current = randomBytes(32)
  await writeKeys(dataDir, CURRENT, [current])
  return { current, others }
}

/** Makes a new current key, and keeps the one before it. */
export async function replaceKeyFile(dataDir: string): Promise<KeyRing> {
  const { current, others } = await readKeyFiles(dataDir)
  const earlier = [current, ...others.filter((key) => !key.equals(current))]
  if (earlier.length > PREVIOUS_MAX)
    throw new Error(`${PREVIOUS} holds ${PREVIOUS_MAX} keys already`)
  const next = randomBytes(32)
  // A crash in between leaves the current key in both, which does no harm.
  await writeKeys(dataDir, PREVIOUS, earlier)
  await writeKeys(dataDir, CURRENT, [next])
  return { current: next, others: earlier }
}

/** Throws the earlier keys away. */
export async function dropPreviousKeys(dataDir: string): Promise<void> {
  await writeKeys(dataDir, PREVIOUS, [])
}

async function readKeys(dataDir: string, name: string): Promise<Buffer[]> {
  const text = await readIfPresent(join(dataDir, name))
  const lines = text?.split('\n').filter((line) => line.trim() !== '') ?? []
  if (name === CURRENT && text !== undefined && lines.length !== 1) throw broken(dataDir, name)
  return lines.map((line) => {
    const key = Buffer.from(line.trim(), 'base64')
    if (key.length !== 32) throw broken(dataDir, name)
    return key
  })
}

function writeKeys(dataDir: string, name: string, keys: readonly Buffer[]): Promise<void> {
  return writePrivate(dataDir, name, keys.map((key) => `${key.toString('base64')}\n`).join(''))
}

function broken(dataDir: string, name: string): Error {
  return new Error(`${join(dataDir, name)} does not hold base64 of 32 bytes`)
}
