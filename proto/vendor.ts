/**
 * Prints `buf/validate/validate.proto` from the descriptor inside @bufbuild/protovalidate.
 *
 * No npm package ships that file and there is no schema registry at build time, so
 * `npm run generate` and `buf lint` read this print from node_modules/.proto.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import {
  type DescriptorProto,
  type EnumDescriptorProto,
  type FieldDescriptorProto,
  FieldDescriptorProto_Label as Label,
  FieldDescriptorProto_Type as Type,
} from '@bufbuild/protobuf/wkt'
import { file_buf_validate_validate } from '@bufbuild/protovalidate/gen/buf/validate/validate_pb.js'

const file = file_buf_validate_validate.proto
const target = join(import.meta.dirname, '../node_modules/.proto', file.name)

mkdirSync(dirname(target), { recursive: true })
writeFileSync(
  target,
  [
    'syntax = "proto2";',
    `package ${file.package};`,
    ...file.dependency.map((path) => `import "${path}";`),
    ...file.enumType.map(printEnum),
    ...file.messageType.map(printMessage),
    ...file.extension.map((field) => `extend ${field.extendee} {\n${printField(field)}\n}`),
    '',
  ].join('\n'),
)

function printEnum(type: EnumDescriptorProto): string {
  const aliases = type.options?.allowAlias ? ['option allow_alias = true;'] : []
  const values = type.value.map((value) => `${value.name} = ${value.number};`)
  return `enum ${type.name} {\n${[...aliases, ...values].join('\n')}\n}`
}

function printMessage(type: DescriptorProto): string {
  const plain = type.field.filter((field) => !Object.hasOwn(field, 'oneofIndex'))
  const oneofs = type.oneofDecl.map((oneof, index) => {
    const members = type.field.filter(
      (field) => Object.hasOwn(field, 'oneofIndex') && field.oneofIndex === index,
    )
    return `oneof ${oneof.name} {\n${members.map((field) => printField(field, '')).join('\n')}\n}`
  })
  // The end of a range is exclusive in a descriptor and inclusive in a file.
  const ranges = type.extensionRange.map(
    (range) => `extensions ${range.start} to ${range.end - 1};`,
  )
  return `message ${type.name} {\n${[...plain.map((field) => printField(field)), ...oneofs, ...ranges].join('\n')}\n}`
}

function printField(field: FieldDescriptorProto, label = printLabel(field)): string {
  const type = field.typeName || Type[field.type].toLowerCase()
  return `${label}${type} ${field.name} = ${field.number};`
}

function printLabel(field: FieldDescriptorProto): string {
  return `${Label[field.label].toLowerCase()} `
}
