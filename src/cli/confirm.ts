import { createInterface } from 'node:readline'
import { EXIT, Failure } from './failure.ts'

interface Confirmation {
  /** What is about to happen, in lines. */
  readonly question: string
  /** What has to be typed. */
  readonly word: string
}

/** A terminal, or what stands in for one. */
interface Input extends NodeJS.ReadableStream {
  readonly isTTY?: boolean
}

/**
 * Asks a person to type a word before something that cannot be taken back.
 *
 * @throws Failure when something else is typed, or when there is no person to ask
 */
export async function confirm(
  input: Input,
  output: NodeJS.WritableStream,
  { question, word }: Confirmation,
): Promise<void> {
  if (input.isTTY !== true) {
    throw new Failure(EXIT.usage, 'this needs a confirmation: add --yes')
  }
  output.write(`${question}\n`)
  const lines = createInterface({ input, output })
  try {
    const typed = await new Promise<string>((resolve) => {
      lines.once('close', () => resolve(''))
      lines.once('SIGINT', () => resolve(''))
      lines.question(`Type "${word}" to go on: `, resolve)
    })
    if (typed.trim() !== word) throw new Failure(EXIT.refused, 'not confirmed: nothing was done')
  } finally {
    lines.close()
  }
}
