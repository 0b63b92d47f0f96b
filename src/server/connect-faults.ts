import type { IncomingHttpHeaders } from 'node:http'
import { Code, ConnectError, type HandlerContext } from '@connectrpc/connect'
import { Fault } from '../errors.ts'
import { toConnectError } from './status.ts'

/**
 * Makes what the library finds wrong with a body the same fault as at the other doors. Of its own,
 * it answers INTERNAL to bytes that do not parse, as if that were a fault of the server's.
 *
 * The library aborts the call with the error that it is about to answer with: this is the one place
 * where that error can be had.
 */
export function correctLibraryFaults(context: HandlerContext, requestId: string): void {
  const { signal } = context
  signal.addEventListener('abort', () => correct(signal.reason, requestId), { once: true })
}

/** The longest time that a call may ask for. */
export const TIMEOUT_MAX_MS = 3_600_000

const UNIT_MS: Readonly<Record<string, number>> = {
  ...{ H: 3_600_000, M: 60_000, S: 1_000, m: 1, u: 1e-3, n: 1e-6 },
}

/**
 * Shortens times that are refused anyway to just above what is allowed. The library would set a
 * timer of that length before it refuses, and Node would print a warning at each.
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

function correct(error: unknown, requestId: string): void {
  // Errors of ours have details; those of the library do not.
  if (!(error instanceof ConnectError) || error.details.length > 0) return
  if (!isUnreadable(error)) return
  const text = 'The body is not the message of this method'
  const { code, message, rawMessage, details } = toConnectError(
    new Fault('malformed_json', text, { cause: error }),
    requestId,
  )
  Object.assign(error, { code, message, rawMessage, details })
}

/** What the library calls internal, and is the caller's doing. */
const CALLERS = /^(parse binary|decompression failed|received compressed envelope|invalid envelope)/

function isUnreadable({ code, rawMessage }: ConnectError): boolean {
  if (code === Code.InvalidArgument) return true
  return code === Code.Internal && CALLERS.test(rawMessage)
}
