/** The exit codes of the command. */
export const EXIT = {
  /** The service refused or failed. */
  refused: 1,
  /** Invalid usage, or an invalid setting. */
  usage: 2,
  /** The service is not running, was not found, or does not respond. */
  unreachable: 3,
} as const

/** An error that the operator can act on. Printed without a stack. */
export class Failure extends Error {
  override readonly name = 'Failure'
  readonly exitCode: number
  readonly details: readonly string[]
  /** The stable reason of the service, such as `not_found`; empty: none. */
  readonly reason: string

  /**
   * @param exitCode one of EXIT
   * @param message one line
   * @param details further lines
   */
  constructor(exitCode: number, message: string, details: readonly string[] = [], reason = '') {
    super(message)
    this.exitCode = exitCode
    this.details = details
    this.reason = reason
  }
}
