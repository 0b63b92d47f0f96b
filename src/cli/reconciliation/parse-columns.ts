import {
  normalizeHeader,
  STATEMENT_COLUMNS,
  type StatementColumn,
} from '../../core/statement-columns.ts'
import { EXIT, Failure } from '../failure.ts'

/** Reads `session=NIP Session,amount=Credit`. @throws Failure */
export function parseColumns(text: string): Map<StatementColumn, string> {
  const given = new Map<StatementColumn, string>()
  for (const pair of text.split(',')) {
    const [name = '', ...rest] = pair.split('=')
    const column = STATEMENT_COLUMNS.find((each) => each === name.trim())
    if (column === undefined || normalizeHeader(rest.join('=')) === '') {
      const known = STATEMENT_COLUMNS.join(', ')
      throw new Failure(EXIT.usage, `--columns must be like session=…,amount=…; columns: ${known}`)
    }
    given.set(column, rest.join('='))
  }
  return given
}
