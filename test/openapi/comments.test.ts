import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import {
  createFileRegistry,
  type DescField,
  type DescMessage,
  fromBinary,
  getOption,
} from '@bufbuild/protobuf'
import { FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt'
import {
  type FieldRules,
  field as fieldOption,
} from '@bufbuild/protovalidate/gen/buf/validate/validate_pb.js'
import { expect, test } from 'vitest'
import { commentOf } from '../../src/openapi/schemas.ts'

const ROOT = join(import.meta.dirname, '../..')

/** Generated code has no comments, so they are read from the source. */
function readContract(): DescMessage[] {
  const buf = join(ROOT, 'node_modules/.bin/buf')
  const bytes = execFileSync(buf, ['build', 'proto', '-o', '-'], { cwd: ROOT, maxBuffer: 2 ** 26 })
  const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, bytes))
  return [...registry].filter(
    (type) => type.kind === 'message' && type.typeName.startsWith('inflow.'),
  ) as DescMessage[]
}

/** Lists of all scopes have as many entries as there are scopes, and times have a form of their own. */
const isExempt = (field: DescField) => field.name === 'scopes' || /RFC 3339/.test(commentOf(field))

function limitsOf({ type }: FieldRules): (bigint | number)[] {
  switch (type.case) {
    case 'string':
      return [type.value.maxLen ?? 0n]
    case 'int32':
    case 'int64':
      return type.value.lessThan.case === 'lte' ? [type.value.lessThan.value] : []
    case 'repeated':
      return [type.value.maxItems ?? 0n, ...(type.value.items ? limitsOf(type.value.items) : [])]
    case 'map':
      return [type.value.maxPairs ?? 0n]
    default:
      return []
  }
}

test('the comment of every field states its limits', () => {
  const fields = readContract().flatMap((message) => message.fields)
  const limits = fields
    .filter((field) => !isExempt(field))
    .flatMap((field) => {
      const rules = limitsOf(getOption(field, fieldOption)).filter((limit) => limit > 0)
      return rules.map((limit) => ({ field, limit }))
    })
  expect(limits.length).toBeGreaterThan(100)
  const silent = limits.filter(({ field, limit }) => {
    const text = commentOf(field).replaceAll(',', '').replaceAll('five', '5')
    return !new RegExp(`(?<!\\d)${limit}(?!\\d)`).test(text)
  })
  expect(silent.map(({ field, limit }) => `${field}: ${limit}`)).toEqual([])
})
