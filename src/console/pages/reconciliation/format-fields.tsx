import type { Bank } from '../../../../gen/inflow/type/v1/bank_pb.ts'
import type { ValueFormat } from '../../../core/statement-row.ts'
import { BANKS } from '../../format/banks.ts'

/** Whose statement it is, and how its values are written. */
export interface FormatChoice extends ValueFormat {
  readonly bank: Bank
}

/** The orders of day and month that a statement may have. */
const DATES = [
  { value: '', label: '2026-11-20' },
  { value: 'day-first', label: '20/11/2026' },
  { value: 'month-first', label: '11/20/2026' },
] as const

export function FormatFields({
  format,
  onChange,
  isDisabled,
}: {
  readonly format: FormatChoice
  readonly onChange: (format: FormatChoice) => void
  readonly isDisabled: boolean
}) {
  return (
    <div className="format-fields">
      <label className="field">
        Bank
        <select
          value={format.bank}
          disabled={isDisabled}
          onChange={(event) => onChange({ ...format, bank: Number(event.target.value) as Bank })}
        >
          {BANKS.map(({ bank, name }) => (
            <option key={bank} value={bank}>
              {name}
            </option>
          ))}
        </select>
      </label>
      <label className="field">
        Dates
        <select
          value={format.dates ?? ''}
          disabled={isDisabled}
          onChange={(event) => {
            const dates = DATES.find(({ value }) => value === event.target.value)?.value
            onChange({ ...format, dates: dates === '' ? undefined : dates })
          }}
        >
          {DATES.map(({ value, label }) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </select>
      </label>
      <label className="field">
        Amounts
        <select
          value={format.unit}
          disabled={isDisabled}
          onChange={(event) =>
            onChange({ ...format, unit: event.target.value === 'kobo' ? 'kobo' : 'naira' })
          }
        >
          <option value="naira">Naira</option>
          <option value="kobo">Kobo</option>
        </select>
      </label>
    </div>
  )
}
