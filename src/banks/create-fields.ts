import { parsed } from '../config/settings.ts'

/** A JSON object with nested fields. */
export interface JsonFields {
  readonly [name: string]: unknown
}

/** A setting with a JSON object of extra fields for a bank's create request. */
export const createFields = parsed(
  parseFields,
  'must be a JSON object such as {"order":{"country":"NGA"}}',
).default({})

/** @returns `fields` overridden by `overrides`; nested objects are merged the same way */
export function mergeFields(fields: JsonFields, overrides: JsonFields): JsonFields {
  const merged: Record<string, unknown> = { ...fields }
  for (const [name, value] of Object.entries(overrides)) {
    const current = merged[name]
    const isNested = isFields(current) && isFields(value)
    Object.defineProperty(merged, name, {
      value: isNested ? mergeFields(current, value) : value,
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
