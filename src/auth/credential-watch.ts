import { Fault } from '../core/errors.ts'
import type { CredentialStatus } from './caller.ts'

/** How often a stream asks whether its credential still stands. */
const STANDING_MS = 800

/** How long a stream has to end by itself. One whose subscriber does not read cannot. */
const END_MS = 250

export interface CredentialWatch {
  /** Aborts when the credential no longer stands, with the Fault to end the stream with. */
  readonly lost: AbortSignal
  stop(): void
}

/**
 * Watches the credential of a stream, also while the subscriber does not take what it is sent: the
 * stream is then ended for it.
 *
 * @param over aborts when the stream has ended
 */
export function watchCredential(
  { stands, end }: CredentialStatus,
  over: AbortSignal,
): CredentialWatch {
  const lost = new AbortController()
  let asking = false
  let ending: NodeJS.Timeout | undefined
  const look = async (): Promise<void> => {
    if (over.aborted) return stop()
    if (asking) return
    asking = true
    // While the database is away nobody can be revoked, and nothing new can be read either.
    const standing = await stands().catch(() => true)
    asking = false
    if (standing || over.aborted) return
    clearInterval(timer)
    const fault = new Fault('unauthorized', 'The token was revoked or has expired')
    ending = setTimeout(() => end(fault), END_MS)
    lost.abort(fault)
  }
  const timer = setInterval(() => void look(), STANDING_MS)
  const stop = (): void => {
    clearInterval(timer)
    clearTimeout(ending)
  }
  return { lost: lost.signal, stop }
}
