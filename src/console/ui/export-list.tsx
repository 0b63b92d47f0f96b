import type { DescField, DescMessage, DescMethodUnary } from '@bufbuild/protobuf'
import { type Timestamp, timestampDate } from '@bufbuild/protobuf/wkt'
import { formatAmount } from '../../core/money.ts'
import { enumName } from '../format/enums.ts'
import { count } from '../format/money.ts'
import { Button } from './button.tsx'
import { Failure } from './page.tsx'
import { useProgress } from './progress.ts'
import { saveFile } from './save-file.ts'

/** A paged list that can be read as a whole. */
export interface ListSource {
  readonly method: DescMethodUnary
  readonly request: object
  /** The descriptor of the rows' messages. */
  readonly list: DescMessage
  read(
    request: object,
    signal: AbortSignal | undefined,
  ): Promise<{ readonly rows: readonly unknown[]; readonly nextPageToken: string }>
}

/** The maximum page size of most lists. */
const PAGE_SIZE = 200

/** The most rows of a file, which bounds the memory; more than spreadsheets show comfortably. */
const ROWS_MAX = 200_000

interface Exported {
  readonly parts: readonly string[]
  readonly rows: number
  /** The token of the next page; undefined: there is no further page. */
  readonly pageToken: string | undefined
}

const NOTHING: Exported = { parts: [], rows: 0, pageToken: '' }

/** Saves the filtered list as CSV. It is read page by page, and resumed after a failure. */
export function ExportList({ source, name }: { source: ListSource; name: string }) {
  const { state, at, error, start, resume, stop } = useProgress(
    source.method.parent,
    NOTHING,
    (_client, from, { signal }) => exportPages(source, name, from, signal),
    (_at, next: Exported) => next,
  )
  const rows = `${count(at.rows)} ${at.rows === 1 ? 'row' : 'rows'}`
  const cut = at.pageToken === undefined ? '' : ': the first of more, choose a shorter time'
  return (
    <span className="export" aria-live="polite">
      {state === 'running' && <span>{rows} read… </span>}
      {state === 'done' && (
        <span>
          Saved {rows}
          {cut}{' '}
        </span>
      )}
      {error !== undefined && <Failure error={error} />}
      {state === 'running' ? (
        <Button onClick={stop}>Cancel</Button>
      ) : (
        <Button icon="download" onClick={() => (error === undefined ? start() : resume())}>
          {error === undefined ? 'Export CSV' : 'Go on'}
        </Button>
      )}
    </span>
  )
}

async function* exportPages(
  { request, list, read }: ListSource,
  name: string,
  from: Exported,
  signal: AbortSignal | undefined,
): AsyncGenerator<Exported> {
  const { csvText } = await import('../format/csv.ts')
  const fields = leavesOf(list)
  let { parts, rows, pageToken } = from
  while (pageToken !== undefined && rows < ROWS_MAX) {
    const page = await read({ ...request, pageSize: PAGE_SIZE, pageToken }, signal)
    const head = rows === 0 && parts.length === 0 ? [fields.map(({ title }) => title)] : []
    const records = page.rows.map((row) => fields.map(({ of }) => of(row)))
    parts = [...parts, csvText([...head, ...records])]
    rows += page.rows.length
    pageToken = page.nextPageToken === '' ? undefined : page.nextPageToken
    yield { parts, rows, pageToken }
  }
  saveFile(`${name.toLowerCase()}.csv`, 'text/csv', parts)
}

type Shape = Readonly<Record<string, unknown>>

interface Leaf {
  readonly title: string
  readonly of: (row: unknown) => string
}

/** The fields of a message and its nested messages as columns, without lists and maps. */
function leavesOf({ fields }: DescMessage, depth = 0): readonly Leaf[] {
  return fields.flatMap((field): readonly Leaf[] => {
    const at = (row: unknown) => (row as Shape | undefined)?.[field.localName]
    if (field.fieldKind === 'list' || field.fieldKind === 'map') return []
    if (field.fieldKind !== 'message' || isTime(field)) {
      return [{ title: field.name.replace(/_minor$/, ''), of: (row) => text(field, at(row)) }]
    }
    if (depth > 0) return []
    return leavesOf(field.message, depth + 1).map(({ title, of }) => ({
      title: `${field.name}_${title}`,
      of: (row) => of(at(row)),
    }))
  })
}

const isTime = ({ message }: DescField) => message?.typeName === 'google.protobuf.Timestamp'

/** Formats a value: amounts in naira, times in RFC 3339, enums by their names. */
function text(field: DescField, value: unknown): string {
  if (value === undefined) return ''
  if (field.fieldKind === 'enum') return enumName(field.enum, value as number)
  if (isTime(field)) return timestampDate(value as Timestamp).toISOString()
  return field.name.endsWith('_minor') ? formatAmount(value as bigint) : String(value)
}
