import { STATEMENT_COLUMNS, type StatementColumn } from '../../../core/statement-columns.ts'
import { count } from '../../format/money.ts'
import type { ReadStatement } from './statement-csv.ts'

const TITLES: Readonly<Record<StatementColumn, string>> = {
  session: 'Session id',
  key: "Bank's own key",
  account: 'Account number',
  amount: 'Amount',
  time: 'Paid at',
  status: 'Status',
  direction: 'Debit or credit',
  payer: 'Payer',
  narration: 'Narration',
}

/** Which header is which column: recognised, or named by the viewer. Faults are listed below. */
export function ColumnChoice({
  headers,
  statement,
  columns,
  onChange,
}: {
  readonly headers: readonly string[]
  readonly statement: ReadStatement
  readonly columns: ReadonlyMap<StatementColumn, string>
  readonly onChange: (columns: ReadonlyMap<StatementColumn, string>) => void
}) {
  const { positions, rows, skipped, faults } = statement
  const headerOf = (column: StatementColumn) => {
    const position = positions?.[column]
    return position === undefined ? (columns.get(column) ?? '') : (headers[position] ?? '')
  }
  const name = (column: StatementColumn, header: string) => {
    const next = new Map(columns)
    if (header === '') next.delete(column)
    else next.set(column, header)
    onChange(next)
  }
  return (
    <>
      <details className="column-choice" open={faults.length > 0}>
        <summary>
          {count(rows.length)} payments
          {skipped > 0 && `, ${count(skipped)} left out (debits, or not final)`} · columns
        </summary>
        <div className="column-fields">
          {STATEMENT_COLUMNS.map((column) => (
            <label key={column} className="field">
              {TITLES[column]}
              <select
                value={headerOf(column)}
                onChange={(event) => name(column, event.target.value)}
              >
                <option value="">{columns.has(column) ? 'As recognised' : '–'}</option>
                {headers.map((header, index) => (
                  // biome-ignore lint/suspicious/noArrayIndexKey: headers may repeat, and do not move
                  <option key={index} value={header}>
                    {header}
                  </option>
                ))}
              </select>
            </label>
          ))}
        </div>
      </details>
      {faults.length > 0 && (
        <ul className="failure" role="alert">
          {faults.map((fault) => (
            <li key={fault}>{fault}</li>
          ))}
        </ul>
      )}
    </>
  )
}
