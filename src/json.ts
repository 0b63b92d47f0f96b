import { type DescField, type DescMessage, type Message, ScalarType } from '@bufbuild/protobuf'
import { FeatureSet_FieldPresence } from '@bufbuild/protobuf/wkt'

/** Writes a message as JSON text. */
export type Encoder = (message: Message) => string

/** Writes one value. */
type Write = (value: unknown) => string

/**
 * Compiles a writer of JSON for one schema. Fields come in the order of the schema, by their JSON
 * names, and are always present, but for those with explicit presence that are not set.
 *
 * Generic reflection would look each field up anew for every answer; this runs on the hot path.
 */
export function compileEncoder(schema: DescMessage): Encoder {
  return compileMessage(schema, new Map()) as Encoder
}

function compileMessage(schema: DescMessage, known: Map<DescMessage, Write>): Write {
  const done = known.get(schema)
  if (done) return done
  const fields: { key: string; localName: string; write: Write; optional: boolean }[] = []
  const write: Write = (value) => {
    const message = value as Readonly<Record<string, unknown>>
    let text = '{'
    for (const field of fields) {
      const part = message[field.localName]
      if (field.optional && part === undefined) continue
      text += (text.length === 1 ? '' : ',') + field.key + field.write(part)
    }
    return `${text}}`
  }
  known.set(schema, write)
  for (const field of schema.fields) {
    fields.push({
      key: `${JSON.stringify(field.jsonName)}:`,
      localName: field.localName,
      write: compileField(field, known),
      optional: field.presence === FeatureSet_FieldPresence.EXPLICIT,
    })
  }
  return write
}

function compileField(field: DescField, known: Map<DescMessage, Write>): Write {
  if (field.fieldKind === 'message') return compileMessage(field.message, known)
  if (field.fieldKind === 'list' && field.listKind === 'message') {
    const item = compileMessage(field.message, known)
    return (value) => `[${(value as readonly unknown[]).map(item).join(',')}]`
  }
  if (field.fieldKind === 'scalar') {
    switch (field.scalar) {
      case ScalarType.STRING:
        return JSON.stringify
      case ScalarType.BOOL:
      case ScalarType.INT32:
        return String
      case ScalarType.DOUBLE:
        // Not String(): JSON has no NaN or Infinity.
        return JSON.stringify
    }
  }
  throw new Error(`${field.parent.typeName}.${field.name} has a type that REST answers do not use`)
}
