import type { DescMessage, DescMethod, DescMethodUnary, MessageInitShape } from '@bufbuild/protobuf'
import { callUnaryMethod, useQuery, useTransport } from '@connectrpc/connect-query'
import { useQueryClient } from '@tanstack/react-query'
import {
  type ComponentType,
  type ReactNode,
  useDeferredValue,
  useId,
  useRef,
  useState,
} from 'react'
import { AccountService } from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { NotificationService } from '../../../gen/inflow/notification/v1/notification_service_pb.ts'
import { OverviewService } from '../../../gen/inflow/overview/v1/overview_service_pb.ts'
import { type ReviewItem, ReviewKind } from '../../../gen/inflow/overview/v1/review_pb.ts'
import { ResultKind } from '../../../gen/inflow/overview/v1/search_pb.ts'
import { PayoutService } from '../../../gen/inflow/payout/v1/payout_service_pb.ts'
import { ReconciliationService } from '../../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { SettlementService } from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { HeldPaymentService } from '../../../gen/inflow/transaction/v1/held_payment_service_pb.ts'
import { bankName } from '../format/enums.ts'
import { words } from '../format/ids.ts'
import { naira } from '../format/money.ts'
import { useMay, useRestricted } from '../session/session.tsx'
import { Action, reasonOf } from '../ui/action.tsx'
import { Button, type ButtonProps } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { dropDraft, useDraft, useDraftName } from '../ui/drafts.ts'
import { AreaField } from '../ui/fields.tsx'
import { usePagedList } from '../ui/list.tsx'
import { Failure } from '../ui/page.tsx'
import { PageLink, Status } from '../ui/values.tsx'
import { ResolveOpening } from './account-forms.tsx'
import { RefundUnmatched } from './refunds.tsx'
import { placeOf } from './review-kinds.ts'

/** The actions that can end an item and that the caller may take, each with its key. */
export function ItemActions({ item, onDecided }: { item: ReviewItem; onDecided: () => void }) {
  const may = useMay()
  const allowed = DECISIONS.filter(({ method }) => may(method) && canEnd(method, item))
  const link = linkOf(item)
  return (
    <div className="review-actions">
      {allowed.map(({ key, label, Button: Decide }) => (
        <Keyed key={label} letter={link === undefined ? key : undefined}>
          <Decide item={item} onDecided={onDecided} />
        </Keyed>
      ))}
      {link && <Keyed letter="a">{link}</Keyed>}
      {allowed.length === 0 && link === undefined && (
        <p className="faint">Your token can only read this item; an operator decides.</p>
      )}
    </div>
  )
}

/** A button with the key that presses it. */
export function Keyed({ letter, children }: { letter: string | undefined; children: ReactNode }) {
  return (
    <span className="keyed" data-key={letter}>
      {children}
      {letter !== undefined && <kbd>{letter}</kbd>}
    </span>
  )
}

const LINKS: Readonly<Partial<Record<ReviewKind, string>>> = {
  [ReviewKind.ENDPOINT]: 'Open the endpoint',
  [ReviewKind.SETTLEMENT]: 'Open settlement',
  [ReviewKind.PAYOUT]: 'Open the payout',
}

/** A link to the page where an item is handled that cannot be decided here. */
function linkOf(item: ReviewItem): ReactNode {
  const text = LINKS[item.kind]
  if (text === undefined) return undefined
  const [to, , query = {}] = placeOf(item)
  return (
    <PageLink to={to} query={query} className="button primary">
      {text}
    </PageLink>
  )
}

/** An action that ends an item or retries it. */
interface Decision {
  readonly method: DescMethod
  /** The key that presses the button; undefined: no key. */
  readonly key: 'a' | 'r' | undefined
  readonly label: string
  readonly Button: ComponentType<DecisionProps>
  /** How several items are decided at once; undefined: they cannot be decided at once. */
  readonly together?: Together
}

interface Together {
  readonly says: string
  /** The label of the field for the reason, if the contract requires a reason. */
  readonly reason?: string | undefined
  /** Returns undefined if the operator has to choose something for this item, so it cannot be decided with others. */
  readonly request: (item: ReviewItem) => object | undefined
}

interface Asked<Input extends DescMessage> {
  /** The title of the dialog; absent: the label of the button. */
  readonly title?: string
  readonly kind?: ButtonProps['kind']
  /** The effect of the decision, in a sentence. */
  readonly says: string
  /** The label of the field for the reason, if the contract requires a reason. */
  readonly reason?: string
  readonly request: (item: ReviewItem) => MessageInitShape<Input>
  /** False: no audit entry names the item. */
  readonly hasEntry?: boolean
}

/** A decision that needs only a confirmation. */
function ask<Input extends DescMessage, Output extends DescMessage>(
  method: DescMethodUnary<Input, Output>,
  key: Decision['key'],
  label: string,
  { title = label, request, hasEntry = true, ...asked }: Asked<Input>,
): Decision {
  const Decide = ({ item, onDecided }: DecisionProps) => (
    <Action
      method={method}
      label={title}
      {...asked}
      request={request(item)}
      target={hasEntry ? item.id : ''}
      onClosed={onDecided}
    />
  )
  const { says, reason } = asked
  return { method, key, label, Button: Decide, together: { says, reason, request } }
}

const { method: reconciliation } = ReconciliationService
const { method: notifications } = NotificationService
const { method: heldPayments } = HeldPaymentService
const { method: payouts } = PayoutService

const DECISIONS: readonly Decision[] = [
  {
    method: reconciliation.assignUnmatchedPayment,
    key: 'a',
    label: 'Assign',
    Button: Assign,
    together: {
      says: 'Records each payment for the account that has its number, open or closed, and notifies the business.',
      request: ({ id, account }) =>
        account && {
          unmatchedPaymentId: id,
          businessId: account.businessId,
          reference: account.reference,
        },
    },
  },
  {
    method: payouts.refundUnmatchedPayment,
    key: 'r',
    label: 'Return',
    Button: ReturnUnmatched,
    together: {
      says: 'Returns the whole amount of each payment to its payer, by a payout.',
      request: ({ id }) => ({ unmatchedPaymentId: id }),
    },
  },
  ask(reconciliation.returnUnmatchedPayment, undefined, 'Mark as returned', {
    says: 'Records that the bank sent the payment back itself, or that you did so at its portal. It moves no money.',
    reason: 'How and why it was returned',
    request: ({ id }) => ({ unmatchedPaymentId: id }),
  }),
  ask(notifications.retryNotification, 'a', 'Process again', {
    kind: 'primary',
    says: 'The bank is asked within seconds to confirm the payment. If it does, the payment is recorded; otherwise the notification may be held again.',
    request: ({ id }) => ({ notificationId: id }),
  }),
  ask(notifications.resolveNotification, 'r', 'Resolve', {
    says: 'Ends the review of the notification. No payment is recorded.',
    reason: 'How and why',
    request: ({ id }) => ({ notificationId: id }),
  }),
  ask(reconciliation.resolvePaymentConflict, 'a', 'Resolve', {
    kind: 'primary',
    says: 'Ends the review of the report. The recorded payment does not change.',
    reason: 'How and why',
    request: ({ id }) => ({ conflictId: id }),
  }),
  { method: AccountService.method.resolveAccount, key: 'a', label: 'Resolve', Button: Resolve },
  ask(heldPayments.acceptPayment, 'a', 'Accept', {
    kind: 'primary',
    says: 'The payment is accepted like any other: it is added to the pending balance, and settled.',
    request: ({ id }) => ({ transactionId: id }),
  }),
  ask(heldPayments.returnPayment, 'r', 'Return', {
    says: 'Requests that the bank sends the money back to its payer. An operator then completes the return.',
    reason: 'Why it is returned',
    request: ({ id }) => ({ transactionId: id }),
  }),
  ask(heldPayments.completeReturn, 'a', 'Complete the return', {
    kind: 'primary',
    says: 'Records that the bank sent the money back to its payer: the payment is reversed.',
    reason: 'How it was returned',
    request: ({ id }) => ({ transactionId: id }),
  }),
  ask(SettlementService.method.settle, 'a', 'Settle', {
    title: 'Settle now',
    says: 'Settles the payments of the business that are due.',
    request: ({ businessId, live }) => ({ businessId, test: !live }),
    hasEntry: false,
  }),
  ask(payouts.approvePayout, 'a', 'Approve', {
    kind: 'primary',
    says: 'The payout is sent to a bank at once.',
    request: ({ id }) => ({ payoutId: id }),
  }),
  ask(payouts.rejectPayout, 'r', 'Reject', {
    says: 'The payout is not sent, and its money is available again.',
    reason: 'Why it is rejected',
    request: ({ id }) => ({ payoutId: id }),
  }),
  ask(payouts.resolvePayoutDiscrepancy, 'a', 'Resolve', {
    kind: 'primary',
    says: 'Ends the review of the difference. No payout changes.',
    reason: 'How and why',
    request: ({ id }) => ({ discrepancyId: id }),
  }),
]

/** Whether the service offers a method for an item. */
function canEnd({ parent, name }: DescMethod, { actions }: ReviewItem): boolean {
  return actions.includes(`${parent.typeName}/${name}`)
}

/** The state of an item that is decided with others. */
type Outcome = 'waits' | 'done' | { readonly error: unknown }

/** Decides several items at once, by one call each, and shows the result of each. */
export function DecideTogether({
  items,
  onClosed,
}: {
  readonly items: readonly ReviewItem[]
  readonly onClosed: () => void
}) {
  const may = useMay()
  const [chosen, setChosen] = useState<{
    readonly decision: Decision
    readonly items: readonly ReviewItem[]
  }>()
  const queries = useQueryClient()
  const offered = DECISIONS.filter(
    ({ method, together }) =>
      may(method) &&
      items.length > 0 &&
      items.every((item) => canEnd(method, item) && together?.request(item) !== undefined),
  )
  const close = () => {
    setChosen(undefined)
    onClosed()
    void queries.invalidateQueries()
  }
  return (
    <>
      {items.length > 0 && (
        <p className="together" role="status">
          {items.length} chosen
          {offered.map((decision) => (
            <Button key={decision.label} onClick={() => setChosen({ decision, items })}>
              {`${decision.label} ${items.length}`}
            </Button>
          ))}
          {offered.length === 0 && (
            <span className="faint">No action applies to all of them: choose similar items.</span>
          )}
          <Button onClick={onClosed}>Choose none</Button>
        </p>
      )}
      {chosen && <TogetherDialog {...chosen} onClose={close} />}
    </>
  )
}

function TogetherDialog({
  decision: { method, label, together },
  items,
  onClose,
}: {
  readonly decision: Decision
  readonly items: readonly ReviewItem[]
  readonly onClose: () => void
}) {
  const transport = useTransport()
  const [outcomes, setOutcomes] = useState<ReadonlyMap<string, Outcome>>(new Map())
  const [isBusy, setBusy] = useState(false)
  const isStopped = useRef(false)
  const id = useId()
  const draft = useDraftName(method.name, 'together')
  const done = items.filter((item) => outcomes.get(item.id) === 'done').length
  const run = async (form: HTMLFormElement) => {
    setBusy(true)
    let hasFailed = false
    const field = reasonOf(method)
    const reason = String(new FormData(form).get(field) ?? '').trim()
    for (const item of items) {
      if (isStopped.current) return
      if (outcomes.get(item.id) === 'done') continue
      const request = { ...together?.request(item), ...(reason !== '' && { [field]: reason }) }
      const outcome = await callUnaryMethod(transport, method as DescMethodUnary, request).then(
        (): Outcome => 'done',
        (error: unknown): Outcome => ({ error }),
      )
      hasFailed ||= outcome !== 'done'
      setOutcomes((now) => new Map(now).set(item.id, outcome))
    }
    if (!hasFailed) dropDraft(draft)
    setBusy(false)
  }
  const close = () => {
    isStopped.current = true
    onClose()
  }
  return (
    <Dialog title={`${label} ${items.length}`} isOpen onClose={close}>
      <form
        id={id}
        ref={useDraft(draft)}
        onSubmit={(event) => {
          event.preventDefault()
          void run(event.currentTarget)
        }}
      >
        <p>{together?.says}</p>
        {together?.reason && (
          <AreaField name={reasonOf(method)} label={together.reason} required maxLength={500} />
        )}
        <ul className="together-items">
          {items.map((item) => {
            const outcome = outcomes.get(item.id) ?? 'waits'
            return (
              <li key={item.id}>
                <span>
                  {item.account?.customerName || item.accountNumber || item.text}
                  {item.amountMinor > 0n && ` · ${naira(item.amountMinor)}`}
                </span>
                {outcome === 'done' && <Status tone="good">Done</Status>}
                {typeof outcome === 'object' && <Failure error={outcome.error} />}
              </li>
            )
          })}
        </ul>
      </form>
      <p role="status">{outcomes.size > 0 && `${done} of ${items.length} done`}</p>
      <div className="dialog-buttons">
        <Button
          onClick={() => {
            dropDraft(draft)
            close()
          }}
        >
          {outcomes.size > 0 && !isBusy ? 'Close' : 'Cancel'}
        </Button>
        {done < items.length && (
          <Button type="submit" form={id} kind="primary" busy={isBusy}>
            {outcomes.size > 0 && !isBusy ? 'Try the others again' : label}
          </Button>
        )}
      </div>
    </Dialog>
  )
}

/** Records an unmatched payment for an account that the operator searches for. */
function Assign({ item, onDecided }: DecisionProps) {
  return (
    <Action
      method={ReconciliationService.method.assignUnmatchedPayment}
      label="Assign"
      kind="primary"
      says={`Records ${naira(item.amountMinor)} for an account of ${bankName(item.bank)}, open or closed, and notifies its business.`}
      request={(form) => {
        const [businessId = '', reference = ''] = form.text('account').split(' ')
        return { unmatchedPaymentId: item.id, businessId, reference }
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

/** The page size of unmatched payments. It is the same as in the details, so that both share the cached list. */
const PAGE_SIZE = 200

/** Returns an unmatched payment by a payout. The account of the payer comes from the list of unmatched payments. */
function ReturnUnmatched({ item: { id, bank }, onDecided }: DecisionProps) {
  const request = { bank, pageSize: PAGE_SIZE }
  const { rows } = usePagedList(reconciliation.listUnmatchedPayments, 'payments', request)
  return <RefundUnmatched payment={rows.find((row) => row.id === id)} onClosed={onDecided} />
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
  // Results for an older text cannot be chosen.
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
            defaultChecked={account.reference === item.account?.reference}
          />
          <span>
            {account.title} <span className="faint">{account.subtitle}</span>
            {account.status !== 'ACTIVE' && <Status tone="neutral">{words(account.status)}</Status>}
          </span>
        </label>
      ))}
      {isSearched && accounts.length === 0 && !found.isFetching && (
        <p className="hint">No account of {bankName(item.bank)} has this.</p>
      )}
      {accounts.length === 0 && (
        <label className="hidden">
          {/* A required choice that is hidden: it keeps the form from being sent while there is no account. */}
          <input type="radio" name="account" required tabIndex={-1} /> None
        </label>
      )}
    </fieldset>
  )
}

interface DecisionProps {
  readonly item: ReviewItem
  readonly onDecided: () => void
}

function Resolve({ item, onDecided }: DecisionProps) {
  const isRestricted = useRestricted()
  return (
    <ResolveOpening
      account={{ businessId: item.businessId, reference: item.id }}
      label="Resolve the opening"
      kind="primary"
      says={
        isRestricted
          ? 'States that the bank did not open the account. Its reference can be used again.'
          : 'States whether the bank opened the account, and with which number.'
      }
      target=""
      question="What the bank says"
      onClosed={onDecided}
    />
  )
}
