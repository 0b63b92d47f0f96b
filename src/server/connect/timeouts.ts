import type { IncomingHttpHeaders } from 'node:http'

/** The longest deadline that a call may request. */
export const TIMEOUT_MAX_MS = 3_600_000

const UNIT_MS: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1_000,
  m: 1,
  u: 1e-3,
  n: 1e-6,
}

/**
 * Shortens deadlines that are refused anyway to just above the maximum. Connect sets a timer of the
 * requested length before it refuses, and Node prints a warning for each that is too long.
 */
export function boundTimeouts(headers: IncomingHttpHeaders): void {
  if (Number(headers['connect-timeout-ms']) > TIMEOUT_MAX_MS) {
    headers['connect-timeout-ms'] = `${TIMEOUT_MAX_MS + 1}`
  }
  const [, value, unit = ''] = /^(\d{1,8})([HMSmun])$/.exec(`${headers['grpc-timeout']}`) ?? []
  if (Number(value) * (UNIT_MS[unit] ?? 0) > TIMEOUT_MAX_MS) {
    headers['grpc-timeout'] = `${TIMEOUT_MAX_MS + 1}m`
  }
}
