import { readFileSync, statSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import { EXIT, Failure } from './output.ts'

/** The longest accepted line. */
const LENGTH_MAX = 1_000

/**
 * Reads one line from standard input. On a terminal it prompts, and does not echo the input.
 *
 * @param what the prompt
 * @throws Failure when the line is empty or too long
 */
export async function readSecret(what: string): Promise<string> {
  const { stdin, stderr } = process
  const prompted = stdin.isTTY === true
  if (prompted) stderr.write(`${what}: `)
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() })
  const lines = createInterface({ input: stdin, output: silent, terminal: prompted })
  try {
    const typed = await new Promise<string>((resolve) => {
      lines.once('line', resolve)
      lines.once('close', () => resolve(''))
      lines.once('SIGINT', () => resolve(''))
    })
    const text = typed.trim()
    if (text === '' || text.length > LENGTH_MAX) {
      throw new Failure(EXIT.usage, `${what}: standard input has no valid line`)
    }
    return text
  } finally {
    lines.close()
    if (prompted) stderr.write('\n')
  }
}

/**
 * Reads the only line of a file.
 *
 * @param source the option or variable that names the file
 * @throws Failure if the file cannot be read, or does not have exactly one line of an acceptable length
 */
export function readSecretFile(path: string, source: string): string {
  let text: string
  try {
    const { size } = statSync(path)
    text = size > LENGTH_MAX + 2 ? '' : readFileSync(path, 'utf8').trim()
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new Failure(EXIT.usage, `${source} names a file that cannot be read (${code}): ${path}`)
  }
  if (text === '' || text.length > LENGTH_MAX || /\s/.test(text)) {
    throw new Failure(EXIT.usage, `${source} names a file that has not one valid line: ${path}`)
  }
  return text
}

/** Reads a secret from standard input if the path is `-`, else from the only line of the file. */
export function readSecretArgument(
  path: string,
  source: string,
  what: string,
): Promise<string> | string {
  return path === '-' ? readSecret(what) : readSecretFile(path, source)
}
