import { useQuery } from '@connectrpc/connect-query'
import { useDeferredValue, useId, useState } from 'react'
import { OverviewService } from '../../../../gen/inflow/overview/v1/overview_service_pb.ts'
import type { ReviewItem } from '../../../../gen/inflow/overview/v1/review_pb.ts'
import { ResultKind } from '../../../../gen/inflow/overview/v1/search_pb.ts'
import { ReconciliationService } from '../../../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { bankName } from '../../format/banks.ts'
import { naira } from '../../format/money.ts'
import { Action } from '../../ui/controls/action.tsx'
import { AreaField } from '../../ui/form/fields.tsx'
import { PageLink } from '../../ui/href.tsx'
import type { DecisionProps } from './resolve-opening.tsx'

/** Records an unmatched payment for an account, which is found by a search. */
export function Assign({ item, onDecided }: DecisionProps) {
  return (
    <Action
      method={ReconciliationService.method.assignUnmatchedPayment}
      label="Assign"
      kind="primary"
      says={`Records ${naira(item.amountMinor)} for an account of ${bankName(item.bank)}, open or closed, and notifies its business.`}
      request={(_reason, form) => {
        const [businessId = '', reference = ''] = form.text('account').split(' ')
        return { unmatchedPaymentId: item.id, businessId, reference, note: form.text('note') }
      }}
      target={item.id}
      result={({ transaction }) => (
        <p>
          Recorded as{' '}
          <PageLink to={`/payments/${transaction?.id ?? ''}`}>{transaction?.id}</PageLink>.
        </p>
      )}
      onClosed={onDecided}
    >
      <AccountField item={item} />
      <AreaField name="note" label="Note" maxLength={500} rows={2} />
    </Action>
  )
}

/** The shortest text that is searched for. */
const QUERY_CHARS_MIN = 3

/** Finds an account of the payment's bank by its number, reference, id, or its customer's e-mail address. */
function AccountField({ item }: { readonly item: ReviewItem }) {
  const [typed, setTyped] = useState(item.accountNumber)
  const text = typed.trim()
  const query = useDeferredValue(text)
  const id = useId()
  const isSearched = query.length >= QUERY_CHARS_MIN
  const found = useQuery(
    OverviewService.method.search,
    { query, live: item.live },
    { enabled: isSearched },
  )
  // Those of another text cannot be chosen.
  const results = query === text ? (found.data?.results ?? []) : []
  const accounts = results.filter(
    ({ kind, bank }) => kind === ResultKind.ACCOUNT && bank === item.bank,
  )
  return (
    <fieldset className="field account-field">
      <label htmlFor={id}>Account</label>
      <input
        id={id}
        value={typed}
        maxLength={254}
        placeholder="Account number, reference, id or e-mail address"
        autoComplete="off"
        onChange={(event) => setTyped(event.target.value)}
      />
      {accounts.map((account) => (
        <label key={account.id} className="choice">
          <input
            type="radio"
            name="account"
            required
            value={`${account.businessId} ${account.reference}`}
          />
          <span>
            {account.title} <span className="faint">{account.subtitle}</span>
          </span>
        </label>
      ))}
      {isSearched && accounts.length === 0 && !found.isFetching && (
        <p className="hint">No account of {bankName(item.bank)} has this.</p>
      )}
      {accounts.length === 0 && (
        <label className="hidden">
          {/* Nothing can be chosen, so the form is not sent. */}
          <input type="radio" name="account" required tabIndex={-1} /> None
        </label>
      )}
    </fieldset>
  )
}
