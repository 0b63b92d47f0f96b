import { vi } from 'vitest'

/** How long a quick operation may take on a busy machine. */
const LIMIT_MS = 15_000

/** Retries a check until it does not throw. @returns its result */
export function waitFor<T>(look: () => T | Promise<T>): Promise<T> {
  return vi.waitFor(look, { timeout: LIMIT_MS, interval: 20 })
}
