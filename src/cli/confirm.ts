import { createInterface } from 'node:readline'
import { EXIT, Failure } from './failure.ts'

interface Confirmation {
  /** What is about to happen, in one or more lines. */
  readonly question: string
  /** The word that confirms. */
  readonly word: string
}

/** A terminal, or a stream in its place. */
interface Input extends NodeJS.ReadableStream {
  readonly isTTY?: boolean
}

/**
 * Asks the operator to type a word before an action that cannot be undone.
 *
 * @throws Failure when another text is typed, or the input is not a terminal
 */
export async function confirm(
  input: Input,
  output: NodeJS.WritableStream,
  { question, word }: Confirmation,
): Promise<void> {
  if (input.isTTY !== true) {
    throw new Failure(EXIT.usage, 'this command needs a confirmation: add --yes')
  }
  output.write(`${question}\n`)
  const lines = createInterface({ input, output })
  try {
    const typed = await new Promise<string>((resolve) => {
      lines.once('close', () => resolve(''))
      lines.once('SIGINT', () => resolve(''))
      lines.question(`Type "${word}" to continue: `, resolve)
    })
    if (typed.trim() !== word) throw new Failure(EXIT.refused, 'not confirmed: nothing was changed')
  } finally {
    lines.close()
  }
}
