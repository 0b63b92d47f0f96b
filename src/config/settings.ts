import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { addressRanges } from '../net/address-ranges.ts'

/** `HTTP_PORT` → `httpPort` */
type CamelCase<Name extends string> = Name extends `${infer First}_${infer Rest}`
  ? `${Lowercase<First>}${Capitalize<CamelCase<Rest>>}`
  : Lowercase<Name>

/** What a schema reads: its settings are named as in the environment, and these in camel case. */
export type Settings<Schema extends z.ZodObject> = {
  readonly [Name in keyof Schema['shape'] & string as CamelCase<Name>]: z.output<
    Schema['shape'][Name]
  >
}

/** The fault of each wrong setting, by its name: one line that begins with the name. */
export type Faults = Map<string, string>

/** Reads one group of settings. Returns undefined, and adds to the faults, if one is wrong. */
export type ReadSettings = <Schema extends z.ZodObject>(
  schema: Schema,
) => Settings<Schema> | undefined

/**
 * Returns what reads the settings of a schema. A setting that is empty or blank is not set. No fault
 * shows a value that the schema does not show.
 *
 * @param prefix of the names in the environment: `BANK_PALMPAY_`
 */
export function createSettingReader(
  env: NodeJS.ProcessEnv,
  faults: Faults,
  prefix = '',
): ReadSettings {
  const add = (name: string, text: string): void => {
    if (!faults.has(name)) faults.set(name, `${name}${text}`)
  }
  const textOf = (name: string): string | undefined => env[name]?.trim() || undefined
  const secretOf = (name: string): string | undefined => {
    const path = textOf(`${name}_FILE`)
    if (path === undefined) return textOf(name)
    if (textOf(name) !== undefined) add(name, ` and ${name}_FILE are set: leave one out`)
    try {
      const text = readFileSync(path, 'utf8').trim()
      if (text === '') add(name, `_FILE names an empty file: ${path}`)
      return text || undefined
    } catch (error) {
      add(name, `_FILE cannot be read: ${error instanceof Error ? error.message : error}`)
      return undefined
    }
  }
  return (schema) => {
    const fields = Object.entries<z.ZodType>(schema.shape)
    const given = fields.map(([name, field]) => [
      name,
      field.meta()?.['secret'] ? secretOf(prefix + name) : textOf(prefix + name),
    ])
    const { data, error } = schema.safeParse(Object.fromEntries(given), { error: missing })
    for (const { path, message } of error?.issues ?? [])
      add(`${prefix}${path[0]?.toString()}`, ` ${message}`)
    const found = data && Object.entries(data).map(([name, value]) => [camelCase(name), value])
    return found && (Object.fromEntries(found) as Settings<typeof schema>)
  }
}

function missing({ input }: { readonly input?: unknown }): string | undefined {
  return input === undefined ? 'is required' : undefined
}

function camelCase(name: string): string {
  return name.toLowerCase().replace(/_(.)/g, (_, letter: string) => letter.toUpperCase())
}

/** A setting that may also be in the file that `<NAME>_FILE` names. */
export function secret<Field extends z.ZodType>(field: Field): Field {
  return field.meta({ secret: true })
}

/** @param expects after "must be"; the bounds are inclusive */
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

export const onOff = choice(['on', 'off'])
  .default('on')
  .transform((text) => text === 'on')

/** Texts separated by commas; none unless set. */
export function list<Item extends z.ZodType<unknown, string>>(item: Item) {
  return z
    .string()
    .transform((text) => text.split(',').map((part) => part.trim()))
    .pipe(z.array(item))
    .default([])
}

/** Ranges of addresses. */
export const cidrs = list(
  z.string().refine(isCidr, {
    error: ({ input }) => `must be ranges such as 10.1.0.0/16,fd00:1::/32, and "${input}" is none`,
  }),
)

/** @param parse undefined where the text is wrong */
export function parsed<Value>(parse: (text: string) => Value | undefined, error: string) {
  return z.string().transform((text, context) => {
    const value = parse(text)
    if (value !== undefined) return value
    context.addIssue(error)
    return z.NEVER
  })
}

function isCidr(text: string): boolean {
  try {
    addressRanges([text])
    return true
  } catch {
    return false
  }
}
