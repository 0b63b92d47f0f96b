import { spawnSync } from 'node:child_process'
import { randomInt } from 'node:crypto'

/** The seed of everything random, which each run prints: that of its commit, so that a commit that passed passes again. `SEED` sets another. */
export const SEED = Number(process.env['SEED'] ?? seedOfCommit())

/** A random seed outside of a repository. */
function seedOfCommit(): number {
  const { stdout } = spawnSync('git', ['rev-parse', 'HEAD'], { encoding: 'utf8' })
  return /^[0-9a-f]{40}/.test(stdout) ? Number.parseInt(stdout.slice(0, 7), 16) : randomInt(2 ** 31)
}

/** mulberry32: a small generator of numbers from 0 to 1 that a seed repeats. */
export function generator(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296
  }
}
