import { styleText } from 'node:util'

/** One column of a table, or one line of a single thing. */
export interface Column<Row> {
  readonly title: string
  /** Numbers stand right-aligned in tables. */
  readonly right?: boolean
  of(row: Row): string
}

/** Writes a result to standard output. */
export function print(text: string): void {
  process.stdout.write(`${text}\n`)
}

/** Tells the person something that is not the result. */
export function note(text: string): void {
  process.stderr.write(`${visible(text)}\n`)
}

/** Rows under their titles, aligned. Without rows: nothing on standard output, and a note. */
export function table<Row>(rows: readonly Row[], columns: readonly Column<Row>[]): string {
  if (rows.length === 0) {
    note('None found.')
    return ''
  }
  const cells = rows.map((row) => columns.map((column) => visible(column.of(row)) || '-'))
  const widths = columns.map((column, at) =>
    Math.max(...[column.title, ...cells.map((row) => row[at] ?? '')].map(width)),
  )
  const line = (texts: readonly string[]) =>
    texts
      .map((text, at) => pad(text, widths[at] ?? 0, columns[at]?.right === true))
      .join('  ')
      .trimEnd()
  const head = line(columns.map((column) => column.title.toUpperCase()))
  return [styleText('bold', head), ...cells.map(line)].join('\n')
}

/** One thing, a line for each of its fields that has a value. */
export function fields<Row>(row: Row, columns: readonly Column<Row>[]): string {
  const indent = Math.max(...columns.map((column) => column.title.length)) + 2
  return columns
    .map((column) => [column.title, visible(column.of(row))] as const)
    .filter(([, text]) => text !== '')
    .map(([title, text]) => `${styleText('bold', title.padEnd(indent))}${text}`)
    .join('\n')
}

/** The columns of a part, as those of the whole that may lack it. */
export function within<Whole, Part>(
  columns: readonly Column<Part>[],
  part: (whole: Whole) => Part | undefined,
): Column<Whole>[] {
  return columns.map((column) => ({
    ...column,
    of(whole) {
      const found = part(whole)
      return found === undefined ? '' : column.of(found)
    },
  }))
}

/** Names and narrations come from outside: what would steer the terminal is shown, not obeyed. */
export function visible(text: string): string {
  return text.replace(/[\p{Cc}\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, '\u{fffd}')
}

function pad(text: string, to: number, right: boolean): string {
  const space = ' '.repeat(Math.max(0, to - width(text)))
  return right ? space + text : text + space
}

/** Columns on a terminal, but for wide scripts: accents that combine take none. */
function width(text: string): number {
  return [...text.replace(/\p{Mn}/gu, '')].length
}
