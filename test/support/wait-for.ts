import { vi } from 'vitest'

/** As long as something that is done in a moment may take on a machine that has much else to do. */
const LIMIT_MS = 15_000

/** Waits until a look at something does not throw. @returns what it returns */
export function waitFor<T>(look: () => T | Promise<T>): Promise<T> {
  return vi.waitFor(look, { timeout: LIMIT_MS, interval: 20 })
}
