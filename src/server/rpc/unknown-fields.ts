import type { DescField, DescMessage, DescMethod } from '@bufbuild/protobuf'
import type { FieldFault } from '../../core/errors.ts'

/**
 * The methods that ignore unknown fields, as they always did: callers may send some. All others refuse
 * them: a mistyped filter must not return everything, nor a mistyped change seem to be made.
 */
const IGNORING_UNKNOWN = new Set([
  ...['GenerateVirtualAccount', 'GetVirtualAccount', 'UpgradeVirtualAccount'],
  ...['GetTransaction', 'GetBalance'],
])

/** Whether a method ignores fields of a JSON request that it does not know, or refuses them. */
export function ignoresUnknownFields({ name, parent }: DescMethod): boolean {
  return parent.name === 'ThirdPartyService' && IGNORING_UNKNOWN.has(name)
}

/** Returns the fields of a JSON request that a method does not know; none: it may be decoded. */
export type FindUnknown = (body: object) => readonly FieldFault[]

/** How many unknown fields an error names. */
const UNKNOWN_MAX = 20

/** Adds the unknown fields of an object, whose names begin with the path. */
type Find = (value: object, path: string, faults: FieldFault[]) => void

/**
 * Compiles the one rule of REST and Connect for JSON. Objects inside a request never have unknown fields, also where
 * those of the request itself are ignored.
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
  const names = fields.map((field) => field.jsonName).join(', ')
  const message = `is not a field of this ${kind}; ${names === '' ? 'it has none' : `known: ${names}`}`
  return (value, path, faults) => {
    for (const name of Object.keys(value)) {
      if (!accepted.has(name)) faults.push({ field: path + name.slice(0, 100), message })
      if (faults.length >= UNKNOWN_MAX) return
    }
  }
}

/** @param known the schemas that are compiled, as messages may contain themselves */
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
    // Those of protobuf itself, such as times, are texts in JSON. Keys of maps are the caller's.
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
