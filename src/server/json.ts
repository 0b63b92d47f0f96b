import { isUtf8 } from 'node:buffer'
import type { DescField, DescMessage, DescMethod } from '@bufbuild/protobuf'
import { Fault, type FieldFault } from '../core/errors.ts'
import { restNameOf } from '../protobuf/values.ts'

/**
 * Reads a body that is one JSON object.
 *
 * @param body undefined if the request had no body
 * @throws Fault malformed_json; its text states the position at which the body stops being JSON
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
 * The position at which a text stops being valid JSON. V8 states the position of some faults only. Otherwise this searches
 * for the longest valid beginning of the text.
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

/** Whether a text is the beginning of valid JSON: it is incomplete, or wrong only at its end. */
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

/**
 * The methods that ignore unknown fields for compatibility: callers may already send some. All other methods refuse unknown
 * fields, so that a mistyped filter does not return everything, and a mistyped change does not seem to succeed.
 */
const IGNORING_UNKNOWN = new Set([
  'GenerateVirtualAccount',
  'GetVirtualAccount',
  'UpgradeVirtualAccount',
  'GetTransaction',
  'GetBalance',
])

/** Whether a method ignores unknown fields of a JSON request. */
export function ignoresUnknownFields({ name, parent }: DescMethod): boolean {
  return parent.name === 'ThirdPartyService' && IGNORING_UNKNOWN.has(name)
}

/** Returns faults for the unknown fields of a JSON request; empty: the request can be decoded. */
export type FindUnknown = (body: object) => readonly FieldFault[]

/** The most unknown fields that an error names. */
const UNKNOWN_MAX = 20

/** Adds the unknown fields of an object; `path` is the prefix of their names. */
type Find = (value: object, path: string, faults: FieldFault[]) => void

/**
 * Compiles the check for unknown fields, which REST and Connect share. Unknown fields of nested objects are always refused,
 * even if the method ignores unknown fields of the request itself.
 */
export function compileFindUnknown(method: DescMethod): FindUnknown {
  const findWithin = compileNested(method.input, new Map())
  const findOwn = ignoresUnknownFields(method) ? undefined : compileOwn(method.input, 'request')
  return (body) => {
    const faults: FieldFault[] = []
    findOwn?.(body, '', faults)
    findWithin(body, '', faults)
    return faults.slice(0, UNKNOWN_MAX)
  }
}

function compileOwn({ fields }: DescMessage, kind: 'request' | 'object'): Find {
  const accepted = new Set(fields.flatMap((field) => [field.jsonName, field.name]))
  const names = fields.map(restNameOf).join(', ')
  const message = `is not a field of this ${kind}; ${names === '' ? 'it has none' : `known: ${names}`}`
  return (value, path, faults) => {
    for (const name of Object.keys(value)) {
      if (!accepted.has(name)) faults.push({ field: path + name.slice(0, 100), message })
      if (faults.length >= UNKNOWN_MAX) return
    }
  }
}

/** @param known the schemas that are already compiled, because messages may contain themselves */
function compileNested(schema: DescMessage, known: Map<DescMessage, Find>): Find {
  const done = known.get(schema)
  if (done !== undefined) return done
  const finders: { readonly field: DescField; readonly find: Find }[] = []
  const findAll: Find = (value, path, faults) => {
    for (const { field, find } of finders) {
      const { name, jsonName } = field
      const given = (value as Readonly<Record<string, unknown>>)[
        Object.hasOwn(value, jsonName) ? jsonName : name
      ]
      if (!isObject(given)) continue
      if (field.fieldKind === 'message') find(given, `${path}${jsonName}.`, faults)
      else if (Array.isArray(given)) {
        for (const [index, item] of given.entries()) {
          if (isObject(item)) find(item, `${path}${jsonName}[${index}].`, faults)
          if (faults.length >= UNKNOWN_MAX) return
        }
      }
    }
  }
  known.set(schema, findAll)
  for (const field of schema.fields) {
    // protobuf's own messages, such as Timestamp, are strings in JSON. The caller chooses the keys of maps.
    const { message } = field
    if (field.fieldKind === 'map' || !message?.typeName.startsWith('inflow.')) continue
    const [own, nested] = [compileOwn(message, 'object'), compileNested(message, known)]
    const find: Find = (value, path, faults) => {
      own(value, path, faults)
      nested(value, path, faults)
    }
    finders.push({ field, find })
  }
  return findAll
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

/** An object or list that contains the current position of the scan. */
interface Frame {
  readonly isObject: boolean
  /** The keys of an object so far; undefined before the first key, and for a list. */
  keys: Set<string> | undefined
  /** The current key, or the current index in a list. */
  at: string | number
}

/** The most characters of a key that an error shows. */
const KEY_CHARS_MAX = 100

/**
 * Refuses JSON in which an object has a key twice: JSON.parse keeps the last value, but a proxy that checked the request
 * before Inflow may have read the first one.
 *
 * @param text may be invalid JSON, which this function or the parser refuses
 * @throws Fault malformed_json that names the key; SyntaxError
 */
export function refuseRepeatedKeys(text: string): void {
  const path = findRepeatedKey(text)
  if (path === undefined) return
  const key = path.slice(0, KEY_CHARS_MAX)
  throw new Fault('malformed_json', `The key "${key}" is given twice`, {
    fields: [{ field: key, message: 'is given twice' }],
  })
}

/**
 * Like `refuseRepeatedKeys`, but cheap for a text that is already parsed: each key has a colon, so if the object has as many
 * keys as the text has colons, the parser dropped no key. Texts with escapes are scanned, because the JSON.parse of V8 14.6
 * may read a repeated key with escapes as a different key.
 *
 * @param parsed what JSON.parse made of the text
 */
export function refuseDroppedKeys(text: string, parsed: object): void {
  let left = text.includes('\\') ? -1 : countKeys(parsed)
  let colon = text.indexOf(':')
  while (colon !== -1 && left >= 0) {
    left -= 1
    colon = text.indexOf(':', colon + 1)
  }
  // The remaining colons are inside strings, or belong to keys that were dropped.
  if (left < 0) refuseRepeatedKeys(text)
}

/** The keys of all objects, at any depth. */
function countKeys(parsed: object): number {
  let count = 0
  // Created only for nested values, which are rare. Recursion could exceed the stack.
  let pending: object[] | undefined
  const visit = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return
    pending ??= []
    pending.push(value)
  }
  for (let next: object | undefined = parsed; next !== undefined; next = pending?.pop()) {
    if (Array.isArray(next)) next.forEach(visit)
    else {
      // Faster than Object.values, which copies.
      for (const key in next) {
        count += 1
        visit((next as Record<string, unknown>)[key])
      }
    }
  }
  return count
}

/** @returns the path of the first repeated key, such as `payments[3].amountMinor` */
function findRepeatedKey(text: string): string | undefined {
  const frames: Frame[] = []
  let frame: Frame | undefined
  for (let index = 0; index < text.length; index++) {
    switch (text[index]) {
      case '{':
      case '[':
        frame = { isObject: text[index] === '{', keys: undefined, at: 0 }
        frames.push(frame)
        break
      case '}':
      case ']':
        frames.pop()
        frame = frames.at(-1)
        break
      case ',':
        if (frame?.isObject === false) frame.at = Number(frame.at) + 1
        break
      case '"': {
        const end = endOfString(text, index)
        if (frame?.isObject && isKey(text, end)) {
          frame.at = unquote(text.slice(index, end))
          frame.keys ??= new Set()
          if (frame.keys.has(frame.at)) return pathOf(frames)
          frame.keys.add(frame.at)
        }
        index = end - 1
      }
    }
  }
  return undefined
}

/** @returns the index after the closing quote */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let backslashes = 0
    while (text[end - 1 - backslashes] === '\\') backslashes += 1
    if (backslashes % 2 === 0) return end + 1
  }
  return text.length
}

/** Whether a string is a key: only a key is followed by a colon. */
function isKey(text: string, end: number): boolean {
  let index = end
  while (' \t\n\r'.includes(text[index] ?? '-')) index += 1
  return text[index] === ':'
}

/** `"session\u005fid"` is the key `session_id`. */
function unquote(quoted: string): string {
  return quoted.includes('\\') ? (JSON.parse(quoted) as string) : quoted.slice(1, -1)
}

function pathOf(frames: readonly Frame[]): string {
  const parts = frames.map(({ at }) => (typeof at === 'number' ? `[${at}]` : `.${at}`))
  return parts.join('').replace(/^\./, '')
}
