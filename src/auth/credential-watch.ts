import { Fault } from '../core/errors.ts'
import type { CredentialStatus } from './caller.ts'

/** How often a stream checks its credential. */
const CHECK_MS = 800

/** How long a stream has to end by itself. It cannot if its subscriber does not read. */
const END_MS = 250

export interface CredentialWatch {
  /** Aborts when the credential is no longer valid, with the Fault to end the stream with. */
  readonly revoked: AbortSignal
  stop(): void
}

/**
 * Watches the credential of a stream. If the credential is no longer valid and the stream does not
 * end by itself, because its subscriber does not read, the watch ends it.
 *
 * @param ended aborts when the stream has ended
 */
export function watchCredential(
  { isValid, end }: CredentialStatus,
  ended: AbortSignal,
): CredentialWatch {
  const revoked = new AbortController()
  let checking = false
  let ending: NodeJS.Timeout | undefined
  const check = async (): Promise<void> => {
    if (ended.aborted) return stop()
    if (checking) return
    checking = true
    // While the database is unavailable, no credential can be revoked and no event can be read.
    const valid = await isValid().catch(() => true)
    checking = false
    if (valid || ended.aborted) return
    clearInterval(timer)
    const fault = new Fault('unauthorized', 'The token was revoked or has expired')
    ending = setTimeout(() => end(fault), END_MS)
    revoked.abort(fault)
  }
  const timer = setInterval(() => void check(), CHECK_MS)
  const stop = (): void => {
    clearInterval(timer)
    clearTimeout(ending)
  }
  return { revoked: revoked.signal, stop }
}
