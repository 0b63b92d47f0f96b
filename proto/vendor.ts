/**
 * Prints `buf/validate/validate.proto`, which the contract imports, from the descriptor inside
 * @bufbuild/protovalidate, as no npm package ships that file. npm runs it after each installation, so the file
 * is that of the installed version, and git ignores it. `inflow proto export` copies it, so it is exact:
 * compiled, it is that descriptor, and programs may load it beside the library of their language.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { getExtension } from '@bufbuild/protobuf'
import {
  type DescriptorProto,
  type EnumDescriptorProto,
  type FieldDescriptorProto,
  FieldDescriptorProto_Label as Label,
  FieldDescriptorProto_Type as Type,
} from '@bufbuild/protobuf/wkt'
import {
  file_buf_validate_validate,
  predefined,
} from '@bufbuild/protovalidate/gen/buf/validate/validate_pb.js'

const file = file_buf_validate_validate.proto
const target = join(import.meta.dirname, file.name)

mkdirSync(dirname(target), { recursive: true })
writeFileSync(
  target,
  indent([
    '// The rules of protovalidate, by Buf Technologies, Inc., under Apache-2.0. Printed from the npm package',
    '// @bufbuild/protovalidate; https://github.com/bufbuild/protovalidate has the same with comments.',
    'syntax = "proto2";',
    `package ${file.package};`,
    ...file.dependency.map((path) => `import "${path}";`),
    ...printFileOptions(),
    ...file.enumType.map(printEnum),
    ...file.messageType.map(printMessage),
    ...file.extension.map((field) => `extend ${field.extendee} {\n${printField(field)}\n}`),
    '',
  ]),
)

function indent(parts: readonly string[]): string {
  let depth = 0
  const lines = parts.join('\n').split('\n')
  return lines
    .map((line) => {
      if (line.startsWith('}')) depth--
      const indented = '  '.repeat(line === '' ? 0 : depth) + line
      if (line.endsWith('{')) depth++
      return indented
    })
    .join('\n')
}

function printFileOptions(): string[] {
  const { goPackage, javaPackage, javaOuterClassname, javaMultipleFiles } = file.options ?? {}
  return [
    `option go_package = "${goPackage}";`,
    `option java_multiple_files = ${javaMultipleFiles};`,
    `option java_outer_classname = "${javaOuterClassname}";`,
    `option java_package = "${javaPackage}";`,
  ]
}

function printEnum(type: EnumDescriptorProto): string {
  const values = type.value.map((value) => `${value.name} = ${value.number};`)
  // The end of a reserved range is inclusive for an enum, and exclusive for a message.
  const ranges = type.reservedRange.map(({ start, end }) => `reserved ${start} to ${end};`)
  return `enum ${type.name} {\n${[...values, ...ranges, ...printReserved(type)].join('\n')}\n}`
}

function printMessage(type: DescriptorProto): string {
  const lines = type.field.map((field, index) => {
    if (!isInOneof(field)) return printField(field)
    const oneof = `oneof ${type.oneofDecl[field.oneofIndex]?.name} {\n`
    const before = type.field[index - 1]
    const after = type.field[index + 1]
    const isSame = (other?: FieldDescriptorProto) =>
      other !== undefined && isInOneof(other) && other.oneofIndex === field.oneofIndex
    return `${isSame(before) ? '' : oneof}${printField(field, '')}${isSame(after) ? '' : '\n}'}`
  })
  const reserved = type.reservedRange.map(({ start, end }) => `reserved ${start} to ${end - 1};`)
  const extensions = type.extensionRange.map(
    ({ start, end }) => `extensions ${start} to ${end - 1};`,
  )
  const body = [...lines, ...reserved, ...printReserved(type), ...extensions]
  return `message ${type.name} {\n${body.join('\n')}\n}`
}

function printReserved({ reservedName }: DescriptorProto | EnumDescriptorProto): string[] {
  return reservedName.map((name) => `reserved "${name}";`)
}

function isInOneof(field: FieldDescriptorProto): boolean {
  return Object.hasOwn(field, 'oneofIndex')
}

function printField(field: FieldDescriptorProto, label = printLabel(field)): string {
  const type = field.typeName || Type[field.type].toLowerCase()
  return `${label}${type} ${field.name} = ${field.number}${printRules(field)};`
}

function printLabel(field: FieldDescriptorProto): string {
  return `${Label[field.label].toLowerCase()} `
}

/** The only options of fields in the file. */
function printRules(field: FieldDescriptorProto): string {
  if (!field.options) return ''
  const rules = getExtension(field.options, predefined).cel.map((rule) => {
    const parts = (['id', 'message', 'expression'] as const).filter((name) => rule[name] !== '')
    // Not as a list, which protobuf.js, the parser of @grpc/proto-loader, does not read.
    return `cel: {${parts.map((name) => `${name}: ${JSON.stringify(rule[name])}`).join(', ')}}`
  })
  return ` [(predefined) = {${rules.join(', ')}}]`
}
