import type { Logger } from 'pino'

/** Does what follows a commit. The commit stands, so an error is only logged. */
export function afterCommit(log: Logger, action: () => void): void {
  try {
    action()
  } catch (error) {
    log.error({ err: error }, 'what follows a commit failed; the commit stands')
  }
}
