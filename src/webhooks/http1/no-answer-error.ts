/** A request has no answer. Its message is told to users. */
export class NoAnswerError extends Error {
  override readonly name = 'NoAnswerError'
}
