import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import { EXIT, Failure } from './failure.ts'

/** The longest line that is read. */
const LENGTH_MAX = 1_000

/**
 * Reads one line from standard input. From a terminal it is asked for, and not shown as it is typed.
 *
 * @param what is asked for
 * @throws Failure when there is none
 */
export async function readSecret(what: string): Promise<string> {
  const { stdin, stderr } = process
  const asked = stdin.isTTY === true
  if (asked) stderr.write(`${what}: `)
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() })
  const lines = createInterface({ input: stdin, output: silent, terminal: asked })
  try {
    const typed = await new Promise<string>((resolve) => {
      lines.once('line', resolve)
      lines.once('close', () => resolve(''))
      lines.once('SIGINT', () => resolve(''))
    })
    const text = typed.trim()
    if (text === '' || text.length > LENGTH_MAX) {
      throw new Failure(EXIT.usage, `${what}: nothing came from standard input`)
    }
    return text
  } finally {
    lines.close()
    if (asked) stderr.write('\n')
  }
}
