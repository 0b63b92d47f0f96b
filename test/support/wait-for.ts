import { setTimeout as pause } from 'node:timers/promises'
import { vi } from 'vitest'

/** The longest wait, which is enough on a machine that is ten times slower. A fulfilled condition is noticed soon. */
export const WAIT_LIMIT_MS = 300_000

/** The interval of checks, because each check takes CPU time from the awaited work. */
const INTERVAL_MS = 50

/** Retries a check until it does not throw. @returns its result */
export function waitFor<T>(look: () => T | Promise<T>): Promise<T> {
  return vi.waitFor(look, { timeout: WAIT_LIMIT_MS, interval: INTERVAL_MS })
}

/** Waits until a condition holds; an error that it throws ends the wait. @returns what it returned */
export function waitUntil<T>(condition: () => T | Promise<T>, limitMs = WAIT_LIMIT_MS) {
  return vi.waitUntil(condition, { timeout: limitMs, interval: INTERVAL_MS })
}

/** The code of gRPC, and of Connect, for a service that cannot be reached, or cannot reach its database. */
const UNAVAILABLE = 14

/**
 * Sends a call, and again while its service cannot reach the database within its deadline of five seconds, which may
 * happen on a busy machine. @returns the response, and how often the call was sent
 */
export async function untilServed<T extends object>(
  call: () => Promise<T>,
): Promise<T & { readonly sent: number }> {
  for (let sent = 1; ; sent += 1) {
    const response = await call().catch((error: unknown) => {
      if ((error as { code?: unknown }).code !== UNAVAILABLE) throw error
    })
    if (response && (response as { status?: unknown }).status !== 503) return { ...response, sent }
    await pause(INTERVAL_MS)
  }
}
