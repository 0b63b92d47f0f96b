import {
  create,
  type DescField,
  type DescMessage,
  type MessageShape,
  ScalarType,
} from '@bufbuild/protobuf'
import { parseAmount } from '../core/money.ts'
import { enumNames, localTime, prefixOf } from './options.ts'
import { EXIT, Failure } from './output.ts'
import { readTable, readText } from './read-csv.ts'

/** A fault of a field of a row; an empty field name stands for the whole row. */
export interface RowFault {
  readonly line: number
  readonly field: string
  readonly message: string
}

/** A row of a file. */
export interface FileRow<Desc extends DescMessage> {
  /** The line on which it starts, from 1. */
  readonly line: number
  /** Undefined if a value could not be read. */
  readonly row: MessageShape<Desc> | undefined
  readonly faults: readonly RowFault[]
}

/** The longest line of a JSON file. */
const LINE_CHARACTERS_MAX = 65_536

/**
 * Reads the rows of a file one at a time: CSV with a line of headers, or one JSON object on each line if the file name ends
 * in .jsonl or .ndjson. Fields have the names of the contract, as in `account_number` or `accountNumber`. A field of a
 * nested message has the name of the message as a prefix: `payer_name`; in JSON it may be in an object. `amount` is
 * `amount_minor` in naira.
 *
 * @throws Failure if the file cannot be read, or names an unknown column
 */
export async function* readRows<Desc extends DescMessage>(
  schema: Desc,
  file: string,
): AsyncGenerator<FileRow<Desc>> {
  const columns = columnsOf(schema)
  const records = /\.(jsonl|ndjson)$/i.test(file) ? readJsonLines(file) : readColumns(columns, file)
  for await (const { line, values, fault } of records) {
    const faults: RowFault[] = fault === undefined ? [] : [{ line, field: '', message: fault }]
    const init: Record<string, unknown> = {}
    for (const [name, value] of values) {
      const message = readField(columns, init, name, value)
      if (message !== undefined) faults.push({ line, field: name, message })
    }
    yield { line, row: faults.length === 0 ? create(schema, init as never) : undefined, faults }
  }
}

interface FileRecord {
  readonly line: number
  /** The values by the names in the file. */
  readonly values: readonly (readonly [name: string, value: unknown])[]
  /** The fault of the line as a whole. */
  readonly fault?: string
}

async function* readColumns(columns: Columns, file: string): AsyncGenerator<FileRecord> {
  let names: readonly string[] = []
  const records = readTable(file, (headers) => {
    names = headers.map((name) => name.trim())
    const unknown = names.filter((name) => !columns.has(name))
    if (unknown.length > 0) throw unknownColumns(unknown, columns)
  })
  for await (const { line, fields, fault } of records) {
    // An empty cell is an absent field.
    const values = names.map((name, at) => [name, fields[at]?.trim() || undefined] as const)
    yield fault === undefined ? { line, values } : { line, values: [], fault }
  }
}

function unknownColumns(names: readonly string[], columns: Columns): Failure {
  const known = [...columns.keys()].filter((name) => !/[A-Z]/.test(name))
  return new Failure(EXIT.usage, `line 1: unknown columns: ${names.join(', ')}`, [
    `the columns are ${known.join(', ')}`,
  ])
}

async function* readJsonLines(file: string): AsyncGenerator<FileRecord> {
  let line = 0
  for await (const text of linesOf(file)) {
    line += 1
    if (text.trim() !== '') yield { line, ...parseObject(text) }
  }
}

function parseObject(text: string): Pick<FileRecord, 'values' | 'fault'> {
  try {
    const parsed: unknown = JSON.parse(text)
    if (isObject(parsed)) return { values: Object.entries(parsed) }
  } catch {
    // The fault is returned below.
  }
  return { values: [], fault: 'is not a JSON object' }
}

async function* linesOf(file: string): AsyncGenerator<string> {
  let rest = ''
  for await (const chunk of readText(file)) {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    if (rest.length > LINE_CHARACTERS_MAX) {
      throw new Failure(
        EXIT.usage,
        `${file}: a line is longer than ${LINE_CHARACTERS_MAX} characters`,
      )
    }
    yield* lines
  }
  if (rest !== '') yield rest
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The field that a column sets. */
interface Target {
  readonly field: DescField
  /** The field of the nested message that contains the field. */
  readonly parent?: DescField & { readonly fieldKind: 'message' }
  readonly isNaira?: boolean
}

/** The targets by the names that a file may use. */
type Columns = ReadonlyMap<string, Target>

const TIMESTAMP = 'google.protobuf.Timestamp'

function columnsOf(schema: DescMessage): Columns {
  const columns = new Map<string, Target>()
  for (const field of schema.fields) {
    for (const name of [field.name, field.jsonName]) columns.set(name, { field })
    if (field.name === 'amount_minor') columns.set('amount', { field, isNaira: true })
    if (field.fieldKind !== 'message' || field.message.typeName === TIMESTAMP) continue
    for (const inner of field.message.fields) {
      const camel = inner.jsonName.charAt(0).toUpperCase() + inner.jsonName.slice(1)
      const target = { field: inner, parent: field }
      columns.set(`${field.name}_${inner.name}`, target)
      columns.set(`${field.jsonName}${camel}`, target)
    }
  }
  return columns
}

/** Sets the field of a name. @returns the fault of its value; undefined if it is valid */
function readField(
  columns: Columns,
  init: Record<string, unknown>,
  name: string,
  value: unknown,
): string | undefined {
  const target = columns.get(name)
  if (target === undefined) return 'is not a field of a row'
  if (value === undefined || value === null) return undefined
  const { field, parent } = target
  if (isMessage(field) && field.message.typeName !== TIMESTAMP) {
    if (!isObject(value)) return 'must be an object'
    const inner: Record<string, unknown> = {}
    const messages = Object.entries(value).flatMap(([key, each]) => {
      const message = readField(columnsOf(field.message), inner, key, each)
      return message === undefined ? [] : [`${key} ${message}`]
    })
    init[field.localName] = inner
    return messages.length > 0 ? messages.join('; ') : undefined
  }
  if (isObject(value) || Array.isArray(value)) return 'must be a single value'
  const read = readValue(target, String(value))
  if ('fault' in read) return read.fault
  if (parent === undefined) init[field.localName] = read.value
  else {
    const inner = (init[parent.localName] ?? {}) as Record<string, unknown>
    init[parent.localName] = { ...inner, [field.localName]: read.value }
  }
  return undefined
}

function isMessage(field: DescField): field is DescField & { readonly fieldKind: 'message' } {
  return field.fieldKind === 'message'
}

type Read = { readonly value: unknown } | { readonly fault: string }

function readValue({ field, isNaira = false }: Target, text: string): Read {
  if (isMessage(field)) {
    const value = localTime.parse(text)
    return value === undefined
      ? { fault: 'must be a time like 2026-11-20T10:00:00Z or 2026-11-20 10:00:00' }
      : { value }
  }
  if (field.fieldKind === 'enum') {
    const name = text.toUpperCase()
    const prefixed = prefixOf(field.enum) + name
    const found = field.enum.values.find((each) => [name, prefixed].includes(each.name))
    return found !== undefined && found.number !== 0
      ? { value: found.number }
      : { fault: `must be one of ${enumNames(field.enum).join(', ')}` }
  }
  const scalar = field.fieldKind === 'scalar' ? field.scalar : ScalarType.STRING
  if (scalar === ScalarType.BOOL) {
    const isTrue = /^(true|yes|1)$/i.test(text)
    return isTrue || /^(false|no|0)$/i.test(text)
      ? { value: isTrue }
      : { fault: 'must be true or false' }
  }
  if (scalar !== ScalarType.INT64) return { value: text }
  if (isNaira) {
    const value = parseAmount(text)
    return value === undefined
      ? { fault: 'must be an amount in naira, such as 1500 or 1500.50' }
      : { value }
  }
  return /^\d{1,16}$/.test(text)
    ? { value: BigInt(text) }
    : { fault: 'must be a whole number of kobo' }
}
