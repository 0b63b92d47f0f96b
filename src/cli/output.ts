import { styleText } from 'node:util'

/** A column of a table, or a line of a single record. */
export interface Column<Row> {
  readonly title: string
  /** Right-aligns the column in tables, for numbers. */
  readonly right?: boolean
  of(row: Row): string
}

/** "1 posting", "2 postings". */
export const counted = (count: number | bigint, noun: string) =>
  `${count} ${noun}${Number(count) === 1 ? '' : 's'}`

/** Writes a result to standard output. */
export function print(text: string): void {
  process.stdout.write(`${text}\n`)
}

let shownZone: string | undefined

/** Remembers the zone of a time that is shown. */
export function willShow(zone: string): void {
  shownZone = zone
}

/** Says on a terminal which zone the times are in that were shown. */
export function noteZone(): void {
  if (shownZone !== undefined && process.stdout.isTTY) note(`Times are in ${shownZone}.`)
}

/** Writes a message that is not part of the result to standard error. */
export function note(text: string): void {
  process.stderr.write(`${visible(text)}\n`)
}

/**
 * Formats rows as an aligned table. Without rows, returns an empty text and prints a note. On a terminal, texts are
 * cut so that a line fits where that is possible.
 */
export function table<Row>(rows: readonly Row[], columns: readonly Column<Row>[]): string {
  if (rows.length === 0) {
    note('None found.')
    return ''
  }
  const cells = rows.map((row) => columns.map((column) => visible(column.of(row)) || '-'))
  const widths = columns.map((column, at) =>
    Math.max(...[column.title, ...cells.map((row) => row[at] ?? '')].map(width)),
  )
  if (process.stdout.isTTY) {
    const isText = columns.map(({ right }, at) => !right && cells.some((row) => !isWhole(row[at])))
    shrink(widths, isText, process.stdout.columns)
  }
  const line = (texts: readonly string[]) =>
    texts
      .map((text, at) =>
        pad(cut(text, widths[at] ?? 0), widths[at] ?? 0, columns[at]?.right === true),
      )
      .join('  ')
      .trimEnd()
  const head = line(columns.map((column) => column.title.toUpperCase()))
  return [bold(head), ...cells.map(line)].join('\n')
}

/** The least width of a text that is cut. */
const CUT_MIN = 12

/** Ids, times and words such as statuses are of no use in part. */
const isWhole = (text = '') => /^([a-z]+_[0-9a-z]{26}|[\d :-]+|[A-Z0-9_]+|yes|no)$/.test(text)

/** Takes from the widest texts what a line is longer than the terminal. */
function shrink(widths: number[], isText: readonly boolean[], terminal: number): void {
  const total = () => widths.reduce((sum, each) => sum + each + 2, -2)
  while (total() > terminal) {
    const widest = Math.max(...widths.filter((_, at) => isText[at]))
    if (widest <= CUT_MIN) return
    widths[widths.findIndex((each, at) => isText[at] && each === widest)] = widest - 1
  }
}

/** Ends a text that is too wide with an ellipsis. */
function cut(text: string, to: number): string {
  if (width(text) <= to) return text
  const letters = [...text]
  while (width(letters.join('')) > to - 1) letters.pop()
  return `${letters.join('').trimEnd()}…`
}

/** Formats one record: a line for each field that has a value. */
export function fields<Row>(row: Row, columns: readonly Column<Row>[]): string {
  const indent = Math.max(...columns.map((column) => column.title.length)) + 2
  return columns
    .map((column) => [column.title, visible(column.of(row))] as const)
    .filter(([, text]) => text !== '')
    .map(([title, text]) => `${bold(title.padEnd(indent))}${text}`)
    .join('\n')
}

/** Control characters, and those that change the direction of text, which JSON need not escape. */
const BEYOND_ASCII = /[\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g

/** Replaces control characters, as names and narrations come from outside the service. */
export function visible(text: string): string {
  return text.replace(/[\p{Cc}\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, '\u{fffd}')
}

/**
 * Formats a value as JSON that a terminal shows as it is: JSON.stringify leaves control characters beyond ASCII, with
 * which an escape sequence may begin, and those that reverse the direction of text.
 */
export function jsonText(value: unknown, indent?: number): string {
  const escaped = (character: string) =>
    `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  return JSON.stringify(value, null, indent).replace(BEYOND_ASCII, escaped)
}

/** Bold on a terminal with colors. Node 20 would style what goes to files and pipes as well. */
function bold(text: string): string {
  const { stdout } = process
  return stdout.isTTY && stdout.hasColors() ? styleText('bold', text) : text
}

function pad(text: string, to: number, right: boolean): string {
  const space = ' '.repeat(Math.max(0, to - width(text)))
  return right ? space + text : text + space
}

/** Returns the width on a terminal. Combining accents take no column; wide scripts count as one. */
function width(text: string): number {
  return [...text.replace(/\p{Mn}/gu, '')].length
}
