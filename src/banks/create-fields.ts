import { parsed } from '../config/settings.ts'

/** Fields of JSON objects, in any depth. */
export interface JsonFields {
  readonly [name: string]: unknown
}

/** A setting that holds a JSON object of further fields for a bank's request. */
export const createFields = parsed(
  parseFields,
  'must be a JSON object such as {"order":{"country":"NGA"}}',
).default({})

/** @returns `fields` with those of `over` put over them, objects within objects likewise */
export function mergeFields(fields: JsonFields, over: JsonFields): JsonFields {
  const merged: Record<string, unknown> = { ...fields }
  for (const [name, value] of Object.entries(over)) {
    const under = merged[name]
    const both = isFields(under) && isFields(value)
    Object.defineProperty(merged, name, {
      value: both ? mergeFields(under, value) : value,
      enumerable: true,
      configurable: true,
      writable: true,
    })
  }
  return merged
}

function isFields(value: unknown): value is JsonFields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function parseFields(text: string): JsonFields | undefined {
  try {
    const fields: unknown = JSON.parse(text)
    return isFields(fields) ? fields : undefined
  } catch {
    return undefined
  }
}
