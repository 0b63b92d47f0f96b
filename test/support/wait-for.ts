import { vi } from 'vitest'

/** How long a wait lasts, also on a machine ten times as slow. A condition that holds is noticed at once. */
export const WAIT_LIMIT_MS = 120_000

/** Retries a check until it does not throw. @returns its result */
export function waitFor<T>(look: () => T | Promise<T>): Promise<T> {
  return vi.waitFor(look, { timeout: WAIT_LIMIT_MS, interval: 20 })
}

/** Waits until a condition holds. @returns what it returned */
export function waitUntil<T>(condition: () => T | Promise<T>) {
  return vi.waitUntil(condition, { timeout: WAIT_LIMIT_MS, interval: 20 })
}
