import { isUtf8 } from 'node:buffer'
import { Fault } from '../../core/errors.ts'
import { refuseDroppedKeys } from '../rpc/repeated-keys.ts'

/**
 * Reads a body that is one JSON object.
 *
 * @param body undefined: there was none
 * @throws Fault malformed_json, which states where the body stops being JSON
 */
export function parseBody(body: unknown): Record<string, unknown> {
  const bytes = Buffer.isBuffer(body) ? body : Buffer.of()
  if (!isUtf8(bytes)) throw new Fault('malformed_json', 'The body is not UTF-8')
  const text = bytes.toString()
  const value = parse(text)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new Fault('malformed_json', 'The body must be one JSON object')
  }
  refuseDroppedKeys(text, value)
  return value as Record<string, unknown>
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new Fault('malformed_json', describe(text, stopOf(text, error as Error)))
  }
}

function describe(text: string, stop: number): string {
  if (text.trim() === '') return 'The body is empty; send one JSON object, such as {}'
  const before = text.slice(0, stop).split('\n')
  const place = `line ${before.length}, column ${(before.at(-1) ?? '').length + 1}`
  return stop >= text.trimEnd().length
    ? `The body is not valid JSON: it ends too early, at ${place}`
    : `The body is not valid JSON: see ${place}`
}

/**
 * Where a text stops being the beginning of JSON. V8 states the position of some faults only; that of the
 * others is the end of the longest beginning in which nothing is wrong yet.
 */
function stopOf(text: string, { message }: Error): number {
  const position = /at position (\d+)/.exec(message)?.[1]
  if (position !== undefined) return Number(position)
  if (message.startsWith('Unexpected end')) return text.length
  let [right, wrong] = [0, text.length]
  while (wrong - right > 1) {
    const middle = Math.floor((right + wrong) / 2)
    if (isBeginning(text.slice(0, middle))) right = middle
    else wrong = middle
  }
  return right
}

/** Whether a text that is not valid JSON is cut off, or wrong only at its end. */
function isBeginning(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch (error) {
    const { message } = error as Error
    const position = /at position (\d+)/.exec(message)?.[1]
    return position === undefined
      ? message.startsWith('Unexpected end')
      : Number(position) >= text.length || message.startsWith('Unterminated string')
  }
}
