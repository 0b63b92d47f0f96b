import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { z } from 'zod'
import { SCOPES, type Scope } from '../auth/caller.ts'
import { addressRanges } from '../core/addresses.ts'

/** `HTTP_PORT` → `httpPort` */
type CamelCase<Name extends string> = Name extends `${infer First}_${infer Rest}`
  ? `${Lowercase<First>}${Capitalize<CamelCase<Rest>>}`
  : Lowercase<Name>

/** The settings of a schema. The schema has the names of the environment, and the result has them in camel case. */
export type Settings<Schema extends z.ZodObject> = {
  readonly [Name in keyof Schema['shape'] & string as CamelCase<Name>]: z.output<
    Schema['shape'][Name]
  >
}

/** The fault of each invalid setting, by its name: one line that begins with the name. */
export type Faults = Map<string, string>

/** Reads one group of settings. If a setting is invalid, adds its fault and returns undefined. */
export type ReadSettings = <Schema extends z.ZodObject>(
  schema: Schema,
) => Settings<Schema> | undefined

/**
 * Creates the reader of a schema's settings. An empty or blank setting counts as not set. A fault shows
 * a value only if the schema's error does.
 *
 * @param prefix the prefix of the names in the environment, such as `BANK_PALMPAY_`
 */
export function createSettingReader(
  env: NodeJS.ProcessEnv,
  faults: Faults,
  prefix = '',
): ReadSettings {
  const add = (name: string, text: string): void => {
    if (!faults.has(name)) faults.set(name, `${name}${text}`)
  }
  return (schema) => {
    const fields = Object.entries<z.ZodType>(schema.shape)
    const given = fields.map(([name, field]) => [
      name,
      isSecret(field)
        ? secretText(env, prefix + name, (text) => add(prefix + name, text))
        : settingText(env, prefix + name),
    ])
    const { data, error } = schema.safeParse(Object.fromEntries(given), { error: missing })
    for (const { path, message } of error?.issues ?? [])
      add(`${prefix}${path[0]?.toString()}`, ` ${message}`)
    const found = data && Object.entries(data).map(([name, value]) => [camelCase(name), value])
    return found && (Object.fromEntries(found) as Settings<typeof schema>)
  }
}

/** The text of a setting; undefined if it is not set, empty or blank. */
export function settingText(env: NodeJS.ProcessEnv, name: string): string | undefined {
  return env[name]?.trim() || undefined
}

/**
 * The text of a secret: the value of the setting, or the content of the file that `<NAME>_FILE` names.
 *
 * @param onFault called with the text of a fault, which follows the name of the setting
 */
export function secretText(
  env: NodeJS.ProcessEnv,
  name: string,
  onFault: (text: string) => void = () => undefined,
): string | undefined {
  const given = settingText(env, name)
  const path = settingText(env, `${name}_FILE`)
  if (path === undefined) return given
  if (given !== undefined) onFault(` and ${name}_FILE are both set: remove one`)
  try {
    const text = readFileSync(path, 'utf8').trim()
    if (text === '') onFault(`_FILE names an empty file: ${path}`)
    return text || undefined
  } catch (error) {
    onFault(`_FILE cannot be read: ${error instanceof Error ? error.message : error}`)
    return undefined
  }
}

function missing({ input }: { readonly input?: unknown }): string | undefined {
  return input === undefined ? 'is required' : undefined
}

function camelCase(name: string): string {
  return name.toLowerCase().replace(/_(.)/g, (_, letter: string) => letter.toUpperCase())
}

/** Marks a setting as secret: it may come from the file that `<NAME>_FILE` names, and no output shows it. */
export function secret<Field extends z.ZodType>(field: Field): Field {
  return field.meta({ secret: true })
}

export function isSecret(field: z.ZodType): boolean {
  return field.meta()?.['secret'] === true
}

/** @param expects the error text after "must be"; the bounds are inclusive */
export function integer(min: number, max: number, expects = `${min} to ${max}`) {
  const error = `must be ${expects}`
  return z
    .string()
    .regex(/^\d{1,9}$/, error)
    .transform(Number)
    .pipe(z.number().min(min, error).max(max, error))
}

export function choice<const Choices extends readonly [string, ...string[]]>(choices: Choices) {
  return z.enum(choices, `must be one of ${choices.join(', ')}`)
}

const switchable = choice(['on', 'off'])
const isOn = (text: 'on' | 'off') => text === 'on'

/** A switch that is on by default. */
export const onOff = switchable.default('on').transform(isOn)

/** A switch that is off by default. */
export const offOn = switchable.default('off').transform(isOn)

/** Comma-separated texts; empty unless set. */
export function list<Item extends z.ZodType<unknown, string>>(item: Item) {
  return z
    .string()
    .transform((text) => text.split(',').map((part) => part.trim()))
    .pipe(z.array(item))
    .default([])
}

/** Address ranges. An address without a prefix length is a range of one address. */
export const cidrs = list(
  z
    .string()
    .refine((text) => isCidr(rangeOf(text)), {
      error: ({ input }) =>
        `must be ranges such as 10.1.0.0/16,fd00:1::/32, but "${input}" is not one`,
    })
    .transform(rangeOf),
)

/**
 * Scopes by name: `ops=admin,finance=read+events:subscribe`; empty unless set.
 *
 * @param pair matches a name and its scopes
 * @param example an example of a pair
 */
export function scopesBy(pair: RegExp, example: string) {
  return z
    .string()
    .default('')
    .transform((text, { addIssue }): ReadonlyMap<string, ReadonlySet<Scope>> => {
      const scopes = new Map<string, ReadonlySet<Scope>>()
      for (const part of text === '' ? [] : text.split(',').map((each) => each.trim())) {
        const [, name = '', names = ''] = pair.exec(part) ?? []
        const granted = z.array(z.enum(SCOPES)).safeParse(names.split('+'))
        if (scopes.has(name)) addIssue(`names ${name} twice`)
        else if (granted.success) scopes.set(name, new Set(granted.data))
        else {
          const known = SCOPES.join(', ')
          addIssue(`must be like ${example}, with scopes of ${known}, but "${part}" is not`)
        }
      }
      return scopes
    })
}

/** @param parse returns undefined for an invalid text */
export function parsed<Value>(parse: (text: string) => Value | undefined, error: string) {
  return z.string().transform((text, context) => {
    const value = parse(text)
    if (value !== undefined) return value
    context.addIssue(error)
    return z.NEVER
  })
}

/** "127.0.0.1" → "127.0.0.1/32" */
function rangeOf(text: string): string {
  const version = isIP(text)
  return version === 0 ? text : `${text}/${version === 4 ? 32 : 128}`
}

function isCidr(text: string): boolean {
  try {
    addressRanges([text])
    return true
  } catch {
    return false
  }
}
