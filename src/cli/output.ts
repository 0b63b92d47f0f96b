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

/** Records the zone of times that are shown. */
export function willShow(zone: string): void {
  shownZone = zone
}

/** Prints the zone of the shown times on a terminal. */
export function noteZone(): void {
  if (shownZone !== undefined && process.stdout.isTTY) note(`Times are in ${shownZone}.`)
}

/** Writes a message that is not part of the result to standard error. */
export function note(text: string): void {
  process.stderr.write(`${visible(text)}\n`)
}

/**
 * Formats rows as an aligned table. Without rows, returns an empty text and prints a note. On a terminal, texts are
 * cut so that lines fit, if that is possible.
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

/** The smallest width to which a text is cut. */
const CUT_MIN = 12

/** Whether a text must not be cut: ids, times, and words such as statuses. */
const isWhole = (text = '') => /^([a-z]+_[0-9a-z]{26}|[\d :-]+|[A-Z0-9_]+|yes|no)$/.test(text)

/** Reduces the widths of the widest texts until a line fits the terminal. */
function shrink(widths: number[], isText: readonly boolean[], terminal: number): void {
  const total = () => widths.reduce((sum, each) => sum + each + 2, -2)
  while (total() > terminal) {
    const widest = Math.max(...widths.filter((_, at) => isText[at]))
    if (widest <= CUT_MIN) return
    widths[widths.findIndex((each, at) => isText[at] && each === widest)] = widest - 1
  }
}

/** Cuts a text that is too wide, and ends it with an ellipsis. */
function cut(text: string, to: number): string {
  if (width(text) <= to) return text
  const letters = [...text]
  while (width(letters.join('')) > to - 1) letters.pop()
  return `${letters.join('').trimEnd()}…`
}

/** Formats one record: a line for each field that has a value. Without a record, returns an empty text. */
export function fields<Row>(row: Row | undefined, columns: readonly Column<Row>[]): string {
  if (row === undefined) return ''
  const indent = Math.max(...columns.map((column) => column.title.length)) + 2
  return columns
    .map((column) => [column.title, visible(column.of(row))] as const)
    .filter(([, text]) => text !== '')
    .map(([title, text]) => `${bold(title.padEnd(indent))}${text}`)
    .join('\n')
}

/** Control characters, and characters that change the direction of text, which JSON need not escape. */
const BEYOND_ASCII = /[\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g

/** Replaces control characters, because names and narrations come from outside the service. */
export function visible(text: string): string {
  return text.replace(/[\p{Cc}\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, '\u{fffd}')
}

/**
 * Formats a value as JSON that is safe for a terminal. JSON.stringify does not escape control characters beyond ASCII, which
 * can begin an escape sequence, and characters that reverse the direction of text.
 */
export function jsonText(value: unknown, indent?: number): string {
  const escaped = (character: string) =>
    `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  return JSON.stringify(value, null, indent).replace(BEYOND_ASCII, escaped)
}

/** Makes a text bold on a terminal with colors. Node 20 itself would style text to files and pipes too. */
function bold(text: string): string {
  const { stdout } = process
  return stdout.isTTY && stdout.hasColors() ? styleText('bold', text) : text
}

function pad(text: string, to: number, right: boolean): string {
  const space = ' '.repeat(Math.max(0, to - width(text)))
  return right ? space + text : text + space
}

/** Returns the width of a text on a terminal. Combining accents take no column; wide characters count as one. */
function width(text: string): number {
  return [...text.replace(/\p{Mn}/gu, '')].length
}

/** The exit codes of the command. */
export const EXIT = {
  /** The service refused or failed. */
  refused: 1,
  /** Invalid usage, or an invalid setting. */
  usage: 2,
  /** The service is not running, was not found, or does not respond. */
  unreachable: 3,
} as const

/** An error that the operator can act on. Printed without a stack. */
export class Failure extends Error {
  override readonly name = 'Failure'
  readonly exitCode: number
  readonly details: readonly string[]
  /** The stable reason of the service, such as `not_found`; empty: none. */
  readonly reason: string

  /**
   * @param exitCode one of EXIT
   * @param message one line
   * @param details further lines
   */
  constructor(exitCode: number, message: string, details: readonly string[] = [], reason = '') {
    super(message)
    this.exitCode = exitCode
    this.details = details
    this.reason = reason
  }
}
