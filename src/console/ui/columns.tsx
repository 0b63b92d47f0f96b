import { type DescField, type DescMessage, type MessageShape, ScalarType } from '@bufbuild/protobuf'
import type { Timestamp } from '@bufbuild/protobuf/wkt'
import { type ReactNode, useContext } from 'react'
import { enumLabel } from '../format/enums.ts'
import { words } from '../format/ids.ts'
import { count } from '../format/money.ts'
import { BusinessNames } from '../session/business-names.ts'
import type { Column } from './list.tsx'
import { type Fact, Facts } from './page.tsx'
import { Clipped, Id, Money, Time } from './values.tsx'

type Shape = Readonly<Record<string, unknown>>

type Flag = 'number' | 'extra' | 'wide'

/**
 * A column or fact of a message: the name of a field, whose title comes from the contract or the table of titles; or a title
 * with a field or a function. Flags: aligned like a number, hidden until it is chosen, omitted on a phone. The key is the name
 * of the column in the URL, if that is not its title. The column of `businessId` shows names, and is omitted in lists of one
 * business.
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

/** The columns of a list. @param schema of the rows; absent: rows are not messages */
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

/** The fields of a message below each other. Absent, zero and empty values are left out. */
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

/** The most characters of an id, which has more room in a fact than in a column. */
const ID_CHARS = { column: 16, fact: 40 }

/** Formats a value by the type of its field: an amount, a time, an id, or the label of an enum value. */
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

/** The titles that do not follow from the names of their fields. */
const TITLES: Readonly<Record<string, string>> = {
  address: 'From',
  alias: 'Prefix of account names',
  amountRule: 'A payment has',
  approvalAboveMinor: 'An approval is needed above, ₦',
  approvalHours: 'An approval may take, in hours',
  bankName: 'Bank',
  bankReference: 'Reference at the bank',
  businessIds: 'Restricted to',
  chargeDuty: 'Charge stamp duty to the business where the law has the sender pay it',
  clientId: 'Client id',
  coolDownHours: 'A beneficiary is new for, in hours',
  customerEmail: 'E-mail',
  customerName: 'Customer',
  cutOff: 'Time in Lagos',
  cutOffAt: 'Recorded before',
  dailyMaxMinor: 'Largest sum of a day, ₦',
  email: 'E-mail',
  expectedAmountMinor: 'Expected',
  feeBasisPoints: 'Fee in percent',
  feeBearer: 'Who bears the fee',
  feeCapMinor: 'Fee at most, ₦',
  feeFlatMinor: 'Fee for each payment, ₦',
  floorMinor: 'What stays available when a settlement is paid out, ₦',
  idType: 'Identity',
  idNumber: 'Identity number',
  merchantReference: 'Reference',
  missedCount: 'Found missing',
  monthlyMaxMinor: 'Largest sum of a month, ₦',
  newBeneficiaryMaxMinor: 'Largest amount to a new one without an approval, ₦',
  otp: 'Code sent to the customer',
  overlap: 'Overlap, in hours',
  payoutMaxMinor: 'Largest payout, ₦',
  splitsMinor: 'Shares of others',
  singleUse: 'For a single payment',
  tokenUrl: 'URL that issues tokens',
  transactionCount: 'Payments',
  ttl: 'Valid for',
  url: 'URL',
  username: 'User name',
}

/** The title of a field, by its name in the contract: `startedAt` is "Started". */
export function titleOf(name: string): string {
  const own = name.replace(/(At|Minor|Count|Id|Ms)$/, '')
  return TITLES[name] ?? words((own || name).replace(/[A-Z]/g, (letter) => `_${letter}`))
}
