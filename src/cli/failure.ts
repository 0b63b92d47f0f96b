/** What the command ends with. */
export const EXIT = {
  /** The service refused or failed. */
  refused: 1,
  /** Wrong usage, or a setting that is wrong. */
  usage: 2,
  /** The service is not running, not found, or does not answer. */
  unreachable: 3,
} as const

/** An end that the person can act on: told in the message, without a stack. */
export class Failure extends Error {
  override readonly name = 'Failure'
  readonly exitCode: number
  readonly details: readonly string[]

  /**
   * @param exitCode one of EXIT
   * @param message one line
   * @param details one more line each
   */
  constructor(exitCode: number, message: string, details: readonly string[] = []) {
    super(message)
    this.exitCode = exitCode
    this.details = details
  }
}
