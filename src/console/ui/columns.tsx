import { type DescField, type DescMessage, type MessageShape, ScalarType } from '@bufbuild/protobuf'
import type { Timestamp } from '@bufbuild/protobuf/wkt'
import { type ReactNode, useContext } from 'react'
import { enumLabel } from '../format/enums.ts'
import { count } from '../format/money.ts'
import { titleOf } from '../format/titles.ts'
import { BusinessNames } from '../session/business-names.ts'
import type { Column } from './list.tsx'
import { type Fact, Facts } from './page.tsx'
import { Clipped, Id, Money, Time } from './values.tsx'

type Shape = Readonly<Record<string, unknown>>

type Flag = 'number' | 'extra' | 'wide'

/**
 * What is shown of a message: a field by its name, with the title that the contract or the table of titles gives it,
 * or a title with a field or with what a function makes. Flags: aligned as a number, hidden until it is chosen, left
 * out on a phone. The key names a column in the URL, where it is not its title. The column of `businessId` has names, and
 * is left out in lists of one business.
 */
export type Entry<Row> =
  | (keyof Row & string)
  | readonly [
      title: string,
      value: (keyof Row & string) | ((row: Row) => ReactNode),
      flags?: Flag | `${Flag} ${Flag}` | undefined,
      key?: string,
    ]

export function columnsOf<D extends DescMessage>(
  schema: D,
  entries: readonly Entry<MessageShape<D>>[],
): readonly Column<MessageShape<D>>[] {
  return columns(entries, schema)
}

/** The columns of a list. @param schema of its rows; absent: they are no messages */
export function columns<Row>(
  entries: readonly Entry<Row>[],
  schema?: DescMessage,
): readonly Column<Row>[] {
  return entries.map((entry) => {
    const [title, value, flags = '', key] =
      typeof entry === 'string' ? [titleOf(entry), entry] : entry
    const field = typeof value === 'string' ? schema?.field[value] : undefined
    return {
      key: key ?? (title.toLowerCase().replace(/[^a-z]/g, '') || 'do'),
      title,
      isNumber: flags.includes('number') || (field !== undefined && isNumber(field)),
      isExtra: flags.includes('extra'),
      isWide: flags.includes('wide'),
      isBusiness: value === 'businessId',
      render(row) {
        if (typeof value === 'function') return value(row)
        const content = (row as Shape)[value]
        if (value === 'businessId') return <BusinessName id={content as string} />
        return shown(field, content, { isFact: false })
      },
    }
  })
}

function BusinessName({ id }: { id: string }) {
  const nameOf = useContext(BusinessNames)
  return id !== '' && <Clipped text={nameOf(id)} />
}

/** What is known of a message, below each other; what is absent, zero or empty is left out. */
export function MessageFacts<D extends DescMessage>({
  schema,
  of,
  facts,
}: {
  readonly schema: D
  readonly of: MessageShape<D>
  readonly facts: readonly Entry<MessageShape<D>>[]
}) {
  return (
    <Facts
      facts={facts.map((entry): Fact => {
        const [title, value] = typeof entry === 'string' ? [titleOf(entry), entry] : entry
        if (typeof value === 'function') return [title, value(of)]
        return [title, shown(schema.field[value], (of as Shape)[value], { isFact: true })]
      })}
    />
  )
}

function isNumber(field: DescField): boolean {
  return (
    field.fieldKind === 'scalar' && ![ScalarType.BOOL, ScalarType.STRING].includes(field.scalar)
  )
}

/** The most characters of an id: in a fact it stands alone. */
const ID_CHARS = { column: 16, fact: 40 }

/** A value as its field says: an amount, a time, an id, the word of an enum. */
function shown(
  field: DescField | undefined,
  value: unknown,
  { isFact }: { readonly isFact: boolean },
): ReactNode {
  if (field === undefined) return undefined
  const { localName: name } = field
  if (field.fieldKind === 'enum') return enumLabel(field.enum, value as number)
  if (field.fieldKind === 'list') return (value as readonly unknown[]).join(', ')
  if (field.fieldKind === 'message') {
    return isFact && value === undefined ? undefined : <Time at={value as Timestamp | undefined} />
  }
  if (name.endsWith('Minor'))
    return isFact && !value ? undefined : <Money minor={value as bigint} />
  if (isNumber(field)) return count(value as bigint | number)
  if (!/(^id|Id|Reference|reference|hash|Hash)$/.test(name)) return value as string
  if (isFact && value === '') return undefined
  return <Id text={value as string} charsMax={isFact ? ID_CHARS.fact : ID_CHARS.column} />
}
