import { createReadStream } from 'node:fs'
import { pipeline } from 'node:stream'
import { CsvError as ParseError, parse } from 'csv-parse'
import { EXIT, Failure } from './failure.ts'

/** A record of a CSV file. */
export interface CsvRecord {
  /** The line on which the record starts, counted from 1. */
  readonly line: number
  readonly fields: readonly string[]
}

/** A syntax error in a CSV file, with its position. */
export class CsvError extends Error {
  override readonly name = 'CsvError'
}

/** The largest record, over all its lines. */
const RECORD_BYTES_MAX = 65_536
const FIELDS_MAX = 1_000

/**
 * Reads CSV a record at a time, by RFC 4180: fields may be quoted, a quote in a quoted field is
 * doubled, and lines end in LF or CRLF. A quote anywhere else is an error, as its meaning would be
 * a guess. Empty lines are skipped.
 *
 * @param chunks text without a byte order mark
 * @throws CsvError naming the line on which the record starts, and the column
 */
export async function* readCsv(
  chunks: AsyncIterable<string> | Iterable<string>,
): AsyncGenerator<CsvRecord> {
  // csv-parse counts a CRLF in a quoted field as two lines, but an editor as one.
  let nextLine = 1
  const parser = parse({
    record_delimiter: ['\r\n', '\n'],
    relax_column_count: true,
    max_record_size: RECORD_BYTES_MAX,
    cast(field, { index, quoting }) {
      const fault = (text: string) => new CsvError(`line ${nextLine}, column ${index + 1}: ${text}`)
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
  // An error of the chunks or the parser ends the iteration below, so the callback does nothing.
  pipeline(chunks, parser, () => {})
  try {
    for await (const [line, ...fields] of parser as AsyncIterable<string[]>) {
      yield { line: Number(line), fields }
    }
  } catch (error) {
    throw error instanceof ParseError ? describe(error, nextLine) : error
  }
}

/** The text of a file in UTF-8, with or without a byte order mark. @throws Failure */
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

const FAULTS: Readonly<Partial<Record<ParseError['code'], string>>> = {
  CSV_INVALID_CLOSING_QUOTE: 'text after a closing quote',
  INVALID_OPENING_QUOTE: 'a quote inside an unquoted field',
  CSV_QUOTE_NOT_CLOSED: 'the closing quote is missing',
  CSV_MAX_RECORD_SIZE: `the record is longer than ${RECORD_BYTES_MAX} bytes`,
}

function describe(error: ParseError, line: number): CsvError {
  const text = FAULTS[error.code] ?? error.message
  return new CsvError(`line ${line}, column ${Number(error['column']) + 1}: ${text}`)
}
