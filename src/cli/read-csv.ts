import { createReadStream } from 'node:fs'
import { pipeline } from 'node:stream'
import { CsvError, parse } from 'csv-parse'
import { EXIT, Failure } from './output.ts'

/** A record of a CSV file, and the line on which it starts, counted from 1. */
interface CsvRecord {
  readonly line: number
  readonly fields: readonly string[]
}

/** The largest record, including all of its lines. */
const RECORD_BYTES_MAX = 65_536
const FIELDS_MAX = 1_000

/**
 * Reads CSV one record at a time (RFC 4180): fields may be quoted, a quote in a quoted field is
 * doubled, and lines end in LF or CRLF. A quote anywhere else is an error, because its meaning is
 * ambiguous. Empty lines are skipped.
 *
 * @param chunks text without a byte order mark
 * @throws Failure naming the line on which the record starts, and the column
 */
export async function* readCsv(
  chunks: AsyncIterable<string> | Iterable<string>,
): AsyncGenerator<CsvRecord> {
  // csv-parse counts a CRLF in a quoted field as two lines, but editors count it as one.
  let nextLine = 1
  const parser = parse({
    record_delimiter: ['\r\n', '\n'],
    relax_column_count: true,
    max_record_size: RECORD_BYTES_MAX,
    cast(field, { index, quoting }) {
      const fault = (text: string) => faultAt(nextLine, index + 1, text)
      if (index >= FIELDS_MAX) throw fault(`a record has at most ${FIELDS_MAX} fields`)
      if (!quoting && field.includes('\r')) throw fault('a carriage return without a line feed')
      if (field.includes('\0')) throw fault('a NUL character')
      return field
    },
    on_record(fields) {
      const line = nextLine
      nextLine += 1
      for (const field of fields) if (field.includes('\n')) nextLine += field.split('\n').length - 1
      return fields.length === 1 && fields[0] === '' ? undefined : [`${line}`, ...fields]
    },
  })
  // An error of `chunks` or the parser ends the iteration below, so the callback does nothing.
  pipeline(chunks, parser, () => {})
  try {
    for await (const [line, ...fields] of parser as AsyncIterable<string[]>) {
      yield { line: Number(line), fields }
    }
  } catch (error) {
    if (!(error instanceof CsvError)) throw error
    throw faultAt(nextLine, Number(error['column']) + 1, FAULTS[error.code] ?? error.message)
  }
}

/** Reads a UTF-8 file without its byte order mark, if it has one. @throws Failure */
export async function* readText(file: string): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  try {
    for await (const bytes of createReadStream(file)) yield decoder.decode(bytes, { stream: true })
    yield decoder.decode()
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const reason = code === 'ERR_ENCODING_INVALID_ENCODED_DATA' ? 'it is not UTF-8' : String(code)
    throw new Failure(EXIT.usage, `cannot read ${file}: ${reason}`)
  }
}

const FAULTS: Readonly<Partial<Record<CsvError['code'], string>>> = {
  CSV_INVALID_CLOSING_QUOTE: 'text after a closing quote',
  INVALID_OPENING_QUOTE: 'a quote inside an unquoted field',
  CSV_QUOTE_NOT_CLOSED: 'the closing quote is missing',
  CSV_MAX_RECORD_SIZE: `the record is longer than ${RECORD_BYTES_MAX} bytes`,
}

function faultAt(line: number, column: number, text: string): Failure {
  return new Failure(EXIT.usage, `line ${line}, column ${column}: ${text}`)
}

/**
 * Reads a CSV file whose first record has the headers. A record of another width gets a `fault`.
 *
 * @param onHeaders called with the headers before the first record
 * @throws Failure if the file cannot be read, or is empty
 */
export async function* readTable(
  file: string,
  onHeaders: (headers: readonly string[]) => void,
): AsyncGenerator<CsvRecord & { readonly fault?: string }> {
  let width: number | undefined
  for await (const record of readCsv(readText(file))) {
    const { length } = record.fields
    if (width === undefined) {
      width = length
      onHeaders(record.fields)
    } else if (length === width) yield record
    else yield { ...record, fault: `has ${length} columns, but the header has ${width}` }
  }
  if (width === undefined) throw new Failure(EXIT.usage, 'line 1: the file is empty')
}
