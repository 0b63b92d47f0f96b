import { timestampFromMs, timestampMs } from '@bufbuild/protobuf/wkt'
import { useId, useState } from 'react'
import {
  HoldStateSchema,
  type Transaction,
  TransactionStatusSchema,
  VarianceSchema,
} from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { Bank, BankSchema } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { enumChoices, enumValue } from '../format/enums.ts'
import { parseNaira } from '../format/money.ts'
import { useUrlState, useViewScope, type ViewScope } from '../session/view-scope.tsx'
import { Button } from '../ui/button.tsx'
import { ChoiceFilter, FilterBar, readTime, TextFilter, TimeFilter } from '../ui/filters.tsx'
import { Popover } from '../ui/popover.tsx'

/** The business and the mode are chosen in the bar above. */
export function PaymentFilters() {
  const { businessId } = useViewScope()
  return (
    <FilterBar>
      <ChoiceFilter name="status" label="Status" choices={enumChoices(TransactionStatusSchema)} />
      <ChoiceFilter name="bank" label="Bank" choices={enumChoices(BankSchema)} />
      <AmountFilter />
      <TimeFilter label={businessId === '' ? 'Recorded' : 'Paid'} />
      <ChoiceFilter name="variance" label="Variance" choices={enumChoices(VarianceSchema)} />
      <ChoiceFilter name="hold" label="Held" choices={enumChoices(HoldStateSchema)} />
      {businessId !== '' && (
        <TextFilter name="account" label="Account" placeholder="R-… or your reference" />
      )}
    </FilterBar>
  )
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

interface AmountFieldProps {
  readonly label: string
  readonly value: string
  readonly onChange: (value: string) => void
}

/** Takes effect on Enter, or when the focus leaves it. */
function AmountField({ label, value, onChange }: AmountFieldProps) {
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

/** What the list shows, as the URL says. */
export type Filters = ReturnType<typeof readFilters>

/** Reads the filters of a URL; what is not one is left out. */
export function readFilters(params: URLSearchParams, scope: ViewScope) {
  const text = (name: string) => params.get(name) ?? ''
  return {
    ...scope,
    status: enumValue(TransactionStatusSchema, text('status')),
    variance: enumValue(VarianceSchema, text('variance')),
    holdState: enumValue(HoldStateSchema, text('hold')),
    bank: enumValue(BankSchema, text('bank')) ?? Bank.BANK_UNSPECIFIED,
    // References are those of one business.
    reference: scope.businessId === '' ? '' : text('account'),
    // Without a limit, 0.
    fromMinor: parseNaira(text('min')) ?? 0n,
    toMinor: parseNaira(text('max')) ?? 0n,
    fromMs: readTime(text('from')),
    toMs: readTime(text('to')),
  }
}

/** Whether anything is chosen beside the mode and the business. */
export function isFiltered({ live: _live, businessId: _one, ...filters }: Filters): boolean {
  return Object.values(filters).some(Boolean)
}

/** The filters of a request, for the list and for its totals. */
export function requestOf(filters: Filters) {
  const { fromMs, toMs, status, variance, holdState } = filters
  const from = fromMs === undefined ? undefined : timestampFromMs(fromMs)
  const to = toMs === undefined ? undefined : timestampFromMs(toMs)
  const isOfAll = filters.businessId === ''
  return {
    businessId: filters.businessId,
    live: filters.live,
    reference: filters.reference,
    bank: filters.bank,
    statuses: status === undefined ? [] : [status],
    variances: variance === undefined ? [] : [variance],
    holdStates: holdState === undefined ? [] : [holdState],
    amountFromMinor: filters.fromMinor,
    // An upper limit below the lower one would be refused.
    amountToMinor: filters.toMinor < filters.fromMinor ? 0n : filters.toMinor,
    ...(from && (isOfAll ? { recordedFrom: from } : { from })),
    ...(to && (isOfAll ? { recordedTo: to } : { to })),
  }
}

/** Whether a payment that arrives belongs into the list. */
export function matches(payment: Transaction, filters: Filters): boolean {
  const { status, variance, holdState, bank, fromMinor, toMinor } = filters
  if (payment.live !== filters.live) return false
  if (filters.businessId !== '' && payment.businessId !== filters.businessId) return false
  if (status !== undefined && payment.status !== status) return false
  if (variance !== undefined && payment.variance !== variance) return false
  if (holdState !== undefined && payment.holdState !== holdState) return false
  if (bank !== Bank.BANK_UNSPECIFIED && payment.bank !== bank) return false
  if (payment.amountMinor < fromMinor) return false
  if (toMinor >= fromMinor && toMinor > 0n && payment.amountMinor > toMinor) return false
  return isOfAccount(payment, filters.reference) && isInTime(payment, filters)
}

function isOfAccount(payment: Transaction, reference: string): boolean {
  if (reference === '') return true
  return payment.accountReference === reference || payment.merchantReference === reference
}

function isInTime(payment: Transaction, { businessId, fromMs, toMs }: Filters): boolean {
  // A list of all businesses is limited by when payments were recorded.
  const at = businessId === '' ? (payment.recordedAt ?? payment.paidAt) : payment.paidAt
  if (at === undefined) return true
  const ms = timestampMs(at)
  return ms >= (fromMs ?? 0) && ms < (toMs ?? Number.POSITIVE_INFINITY)
}
