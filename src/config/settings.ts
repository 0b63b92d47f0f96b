import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { z } from 'zod'
import { SCOPES, type Scope } from '../auth/caller.ts'
import { addressRanges } from '../core/addresses.ts'

/** `HTTP_PORT` → `httpPort` */
type CamelCase<Name extends string> = Name extends `${infer First}_${infer Rest}`
  ? `${Lowercase<First>}${Capitalize<CamelCase<Rest>>}`
  : Lowercase<Name>

/** The settings of a schema: the schema has the names of the environment, the result camel case. */
export type Settings<Schema extends z.ZodObject> = {
  readonly [Name in keyof Schema['shape'] & string as CamelCase<Name>]: z.output<
    Schema['shape'][Name]
  >
}

/** The fault of each invalid setting, by its name: one line that begins with the name. */
export type Faults = Map<string, string>

/** Reads one group of settings. Returns undefined, and adds to the faults, if one is invalid. */
export type ReadSettings = <Schema extends z.ZodObject>(
  schema: Schema,
) => Settings<Schema> | undefined

/**
 * Creates the reader of a schema's settings. An empty or blank setting counts as not set. A fault shows
 * a value only if the schema's error does.
 *
 * @param prefix of the names in the environment, such as `BANK_PALMPAY_`
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
 * The text of a secret: the setting, else the content of the file that `<NAME>_FILE` names.
 *
 * @param onFault called with the fault, which continues the name
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

/** A setting that may also come from a file, which `<NAME>_FILE` names, and that no output shows. */
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

/** On unless it is switched off. */
export const onOff = switchable.default('on').transform(isOn)

/** Off unless it is switched on. */
export const offOn = switchable.default('off').transform(isOn)

/** Comma-separated texts; empty unless set. */
export function list<Item extends z.ZodType<unknown, string>>(item: Item) {
  return z
    .string()
    .transform((text) => text.split(',').map((part) => part.trim()))
    .pipe(z.array(item))
    .default([])
}

/** Address ranges. An address without a prefix is a range of one. */
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
 * `ops=admin,finance=read+events:subscribe`: the scopes of each name; empty unless set.
 *
 * @param pair matches a name and its scopes
 * @param example of a pair
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
