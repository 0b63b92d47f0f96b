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

/** A record is no longer than that, however many lines it has. */
const RECORD_CHARACTERS_MAX = 65_536

type State = 'start' | 'plain' | 'quoted' | 'quote in quoted' | 'cr'

/**
 * Reads CSV a record at a time, after RFC 4180: fields may be quoted, a quote in a quoted field is
 * doubled, and lines end in LF or CRLF. Stricter than many: a quote anywhere else is an error, as
 * what follows would be guessed. Empty lines are left out.
 *
 * @param chunks of text, without a byte order mark
 * @throws CsvError naming line and character
 */
export async function* readCsv(
  chunks: AsyncIterable<string> | Iterable<string>,
): AsyncGenerator<CsvRecord> {
  let state: State = 'start'
  let fields: string[] = []
  let field = ''
  let line = 1
  let firstLine = 1
  let character = 0
  let length = 0
  const fault = (text: string) => new CsvError(`line ${line}, character ${character}: ${text}`)
  const endField = () => {
    fields.push(field)
    field = ''
    state = 'start'
  }
  /** @returns the record; undefined for an empty line */
  const endRecord = (): CsvRecord | undefined => {
    endField()
    const record = { line: firstLine, fields }
    const empty = fields.length === 1 && fields[0] === '' && length <= 2
    fields = []
    length = 0
    firstLine = line + 1
    return empty ? undefined : record
  }
  for await (const chunk of chunks) {
    for (const each of chunk) {
      character += 1
      length += 1
      if (length > RECORD_CHARACTERS_MAX) {
        throw fault(`the record that begins in line ${firstLine} is too long`)
      }
      if (state === 'cr' && each !== '\n') throw fault('a carriage return without a line feed')
      if (state === 'quoted') {
        if (each === '"') state = 'quote in quoted'
        else field += each
      } else if (each === '\n') {
        const record = endRecord()
        if (record) yield record
      } else if (each === ',') endField()
      else if (each === '\r') state = 'cr'
      else if (each !== '"') {
        if (state === 'quote in quoted') throw fault('text after a closing quote')
        field += each
        state = 'plain'
      } else if (state === 'start') state = 'quoted'
      else if (state === 'quote in quoted') {
        field += each
        state = 'quoted'
      } else throw fault('a quote inside of a field that does not begin with one')
      if (each === '\n') {
        line += 1
        character = 0
      }
    }
  }
  if (state === 'quoted') throw fault(`the quote of the record in line ${firstLine} does not end`)
  if (length > 0) {
    const record = endRecord()
    if (record) yield record
  }
}
