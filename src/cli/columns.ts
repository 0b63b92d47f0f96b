import { type DescField, type DescMessage, type MessageShape, ScalarType } from '@bufbuild/protobuf'
import { formatAmount } from '../core/money.ts'
import { enumName, localTime } from './options.ts'
import type { Column } from './output.ts'

/** The columns that are shown of a message. */
export interface Columns<Row> {
  readonly of: DescMessage
  readonly list: readonly Column<Row>[]
}

/**
 * Derives columns from the fields of a message, such as `id, createdAt, payer.name=Payer, amountMinor?`.
 *
 * The title is the name of the field in words, without "Id", "Minor" and "Number" at its end, unless `=` states a title.
 * The text follows from the type: local times, amounts in naira, "yes" and "no" for booleans, and names for enums. With `?`,
 * it is empty for zero and false. A title in `computed` is a column that is not a field.
 *
 * @param computed functions that return the text of a column, by title
 */
export function columnsOf<Desc extends DescMessage>(
  schema: Desc,
  fields: string,
  computed: Readonly<Record<string, (row: MessageShape<Desc>) => string>> = {},
): Columns<MessageShape<Desc>> {
  const list = fields.split(',').map((each): Column<MessageShape<Desc>> => {
    const [, path = '', mark, title] = /^\s*([\w .-]+?)(\??)(?:=(.+))?\s*$/.exec(each) ?? []
    const of = computed[path]
    return of ? { title: path, of } : fieldColumn(schema, path, mark === '?', title)
  })
  return { of: schema, list }
}

function fieldColumn<Desc extends DescMessage>(
  schema: Desc,
  path: string,
  omitsDefault: boolean,
  title: string | undefined,
): Column<MessageShape<Desc>> {
  const names = path.split('.')
  let message: DescMessage | undefined = schema
  let field: DescField | undefined
  for (const name of names) {
    field = message?.fields.find(({ localName }) => localName === name)
    message = field?.message
  }
  if (field === undefined) throw new TypeError(`${schema.typeName} has no field ${path}`)
  const format = formatOf(field, omitsDefault)
  return {
    title: title ?? titleOf(field.localName),
    right: field.fieldKind === 'scalar' && !TEXTS.has(field.scalar),
    of(row) {
      let value: unknown = row
      for (const name of names) value = (value as Record<string, unknown> | undefined)?.[name]
      return value === undefined ? '' : format(value as never)
    },
  }
}

/** Scalar types that a table aligns to the left. */
const TEXTS = new Set([ScalarType.STRING, ScalarType.BOOL])

/** "lastUsedAt" → "Last used at", "businessId" → "Business", "live" → "Mode". */
function titleOf(name: string): string {
  if (name === 'live') return 'Mode'
  const words = name
    .replace(/(?<=.)(Id|Minor|Number)$/, '')
    .replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
  return words.charAt(0).toUpperCase() + words.slice(1)
}

/** Returns the formatter for values of a field. */
function formatOf(field: DescField, omitsDefault: boolean): (value: never) => string {
  if (field.fieldKind === 'list' && field.listKind === 'scalar') {
    return (values: readonly unknown[]) => values.join(' ')
  }
  if (field.fieldKind === 'map') return pairsText
  if (field.fieldKind === 'enum') return (value: number) => enumName(field.enum, value)
  if (field.message?.typeName === 'google.protobuf.Timestamp') return localTime.format
  if (field.fieldKind !== 'scalar') throw new TypeError(`${field} has no text of its own`)
  if (field.scalar === ScalarType.STRING) return (text: string) => text
  if (field.scalar !== ScalarType.BOOL) {
    const format = field.name.endsWith('_minor') ? formatAmount : String
    return (value: bigint) => (omitsDefault && !value ? '' : format(value))
  }
  const [no, yes] = field.name === 'live' ? ['test', 'live'] : [omitsDefault ? '' : 'no', 'yes']
  return (value: boolean) => (value ? yes : no)
}

/** Formats pairs: "order=1042, branch=Ikeja". */
function pairsText(pairs: Readonly<Record<string, string>>): string {
  return Object.entries(pairs)
    .map(([key, value]) => `${key}=${value}`)
    .join(', ')
}

/** Turns the columns of a nested record into columns of its parent. They are empty if the parent has no such record. */
export function nestedColumns<Parent, Nested>(
  { list }: Columns<Nested>,
  select: (parent: Parent) => Nested | undefined,
): Column<Parent>[] {
  return list.map((column) => ({
    ...column,
    of(parent) {
      const nested = select(parent)
      return nested === undefined ? '' : column.of(nested)
    },
  }))
}
