import { useId, useState } from 'react'
import { BANKS } from '../../format/banks.ts'
import { parseNaira } from '../../format/money.ts'
import { HOLD_STATES, STATUSES, VARIANCES } from '../../format/payments.ts'
import { useUrlState, useViewScope } from '../../session/view-scope.ts'
import { Button } from '../../ui/controls/button.tsx'
import { ChoiceFilter, FilterBar, TextFilter, TimeFilter } from '../../ui/controls/filters.tsx'
import { Popover } from '../../ui/controls/popover.tsx'

/** The business and the mode are chosen in the bar above. */
export function PaymentFilters() {
  const { businessId } = useViewScope()
  return (
    <FilterBar>
      <ChoiceFilter name="status" label="Status" choices={choicesOf(STATUSES)} />
      <ChoiceFilter name="bank" label="Bank" choices={choicesOf(BANKS)} />
      <AmountFilter />
      <TimeFilter label={businessId === '' ? 'Recorded' : 'Paid'} />
      <ChoiceFilter name="variance" label="Variance" choices={choicesOf(VARIANCES)} />
      <ChoiceFilter name="hold" label="Held" choices={choicesOf(HOLD_STATES)} />
      {businessId !== '' && (
        <TextFilter name="account" label="Account" placeholder="R-… or your reference" />
      )}
    </FilterBar>
  )
}

function choicesOf(list: readonly { readonly code: string; readonly name: string }[]) {
  return list.map(({ code, name }) => ({ value: code, label: name }))
}

/** From and to, in naira, both included. */
function AmountFilter() {
  const [min, setMin] = useUrlState('min')
  const [max, setMax] = useUrlState('max')
  const isSet = min !== '' || max !== ''
  const label = isSet ? `Amount: ${min === '' ? '0' : min} – ${max === '' ? '…' : max}` : 'Amount'
  return (
    <Popover label={label} isSet={isSet}>
      <AmountField label="From" value={min} onChange={setMin} />
      <AmountField label="To" value={max} onChange={setMax} />
      <div className="dialog-buttons">
        <Button
          onClick={() => {
            setMin('')
            setMax('')
          }}
        >
          Clear
        </Button>
      </div>
    </Popover>
  )
}

/** Takes effect on Enter, or when the focus leaves it. */
function AmountField({
  label,
  value,
  onChange,
}: {
  readonly label: string
  readonly value: string
  readonly onChange: (value: string) => void
}) {
  const [text, setText] = useState(value)
  const [given, setGiven] = useState(value)
  const fault = useId()
  if (given !== value) {
    setGiven(value)
    setText(value)
  }
  const isFault = text !== '' && parseNaira(text) === undefined
  const apply = () => {
    if (!isFault && text.trim() !== value) onChange(text.trim())
  }
  return (
    <label className="field">
      {label}
      <input
        value={text}
        inputMode="decimal"
        placeholder="₦ 1,500.50"
        maxLength={24}
        aria-invalid={isFault}
        aria-describedby={isFault ? fault : undefined}
        onChange={(event) => setText(event.target.value)}
        onBlur={apply}
        onKeyDown={(event) => {
          if (event.key === 'Enter') apply()
        }}
      />
      {isFault && (
        <span className="fault" id={fault}>
          An amount in naira, such as 1,500.50
        </span>
      )}
    </label>
  )
}
