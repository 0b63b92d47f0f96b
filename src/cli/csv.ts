import { pipeline } from 'node:stream'
import { CsvError as ParseError, parse } from 'csv-parse'

/** A record of a CSV file. */
export interface CsvRecord {
  /** Where it begins, from 1. */
  readonly line: number
  readonly fields: readonly string[]
}

/** What is wrong with a CSV file, and where. */
export class CsvError extends Error {
  override readonly name = 'CsvError'
}

/** A record holds no more than this, however many lines it has. */
const RECORD_BYTES_MAX = 65_536
const FIELDS_MAX = 1_000

/**
 * Reads CSV a record at a time, after RFC 4180: fields may be quoted, a quote in a quoted field is
 * doubled, and lines end in LF or CRLF. A quote anywhere else is an error, as the reader would have
 * to guess what follows. Empty lines are left out.
 *
 * @param chunks of text, without a byte order mark
 * @throws CsvError naming the line in which the record begins, and the column
 */
export async function* readCsv(
  chunks: AsyncIterable<string> | Iterable<string>,
): AsyncGenerator<CsvRecord> {
  // csv-parse counts CRLF in a quoted field as two lines; an editor counts one.
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
  // A fault of the chunks or of the parser ends the iteration below; the callback has no more to do.
  pipeline(chunks, parser, () => {})
  try {
    for await (const [line, ...fields] of parser as AsyncIterable<string[]>) {
      yield { line: Number(line), fields }
    }
  } catch (error) {
    throw error instanceof ParseError ? describe(error, nextLine) : error
  }
}

const FAULTS: Readonly<Partial<Record<ParseError['code'], string>>> = {
  CSV_INVALID_CLOSING_QUOTE: 'text after a closing quote',
  INVALID_OPENING_QUOTE: 'a quote inside of a field that does not begin with one',
  CSV_QUOTE_NOT_CLOSED: 'the quote does not end',
  CSV_MAX_RECORD_SIZE: `the record is longer than ${RECORD_BYTES_MAX} bytes`,
}

function describe(error: ParseError, line: number): CsvError {
  const text = FAULTS[error.code] ?? error.message
  return new CsvError(`line ${line}, column ${Number(error['column']) + 1}: ${text}`)
}
