import { useState } from 'react'
import type { Beneficiary } from '../../../gen/inflow/payout/v1/payout_pb.ts'
import { type Payout, PayoutStatus } from '../../../gen/inflow/payout/v1/payout_pb.ts'
import { PayoutService } from '../../../gen/inflow/payout/v1/payout_service_pb.ts'
import type { UnmatchedPayment } from '../../../gen/inflow/reconciliation/v1/unmatched_payment_pb.ts'
import {
  HoldState,
  type Payer,
  type Transaction,
  TransactionStatus,
} from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { naira } from '../format/money.ts'
import { useMay } from '../session/session.tsx'
import { Action } from '../ui/action.tsx'
import { Tick } from '../ui/fields.tsx'
import { usePagedList } from '../ui/list.tsx'
import { Section } from '../ui/page.tsx'
import { PageLink, Time } from '../ui/values.tsx'
import { AmountTo, BeneficiaryFields, Requested } from './payout-forms.tsx'
import {
  isTaken,
  PayoutStatusShown,
  payoutAmount,
  payoutsReadMs,
  usePayoutEvents,
} from './payout-words.tsx'

const METHODS = PayoutService.method

/** The refunds of a payment, and the amount that can still be refunded. */
export function useRefunds({ id }: Pick<Transaction, 'id'>) {
  const enabled = useMay()(METHODS.listPayouts) && id !== ''
  const request = { transactionId: id, pageSize: 200 }
  const options = { enabled, refetchMs: payoutsReadMs }
  const { rows, pages } = usePagedList(METHODS.listPayouts, 'payouts', request, options)
  usePayoutEvents(
    ({ transactionId }) => transactionId === id,
    () => enabled && pages.refetch(),
  )
  return rows
}

interface RefundsProps {
  readonly payment: Transaction
  readonly refunds: readonly Payout[]
}

export function Refunds({ refunds }: Pick<RefundsProps, 'refunds'>) {
  if (refunds.length === 0) return null
  return (
    <Section title="Refunds">
      <ul className="deliveries">
        {refunds.map((refund) => (
          <li key={refund.id}>
            <PageLink to={`/payouts/${refund.id}`}>{payoutAmount(refund)}</PageLink>
            <PayoutStatusShown {...refund} />
            <span>
              <Time at={refund.createdAt} />
            </span>
            <span className="faint">
              to {refund.beneficiary?.accountName}, {refund.beneficiary?.bankName}
            </span>
          </li>
        ))}
      </ul>
    </Section>
  )
}

/** Refunds a payment to its payer, or to another account, which needs an approval. */
export function Refund({ payment, refunds }: RefundsProps) {
  const left = refundableMinor({ payment, refunds })
  // The reference depends on the remaining amount, so that repeating a call without a response refunds only once.
  const reference = `refund-${payment.id}-${payment.amountMinor - left}-${refunds.length}`
  return (
    <Action
      method={METHODS.refundTransaction}
      label="Refund"
      isOffered={isRefundable(payment) && left > 0n}
      says={`${naira(left)} of ${naira(payment.amountMinor)} can be refunded.`}
      request={(_form, { beneficiary }) => ({
        transactionId: payment.id,
        reference,
        ...(beneficiary && !beneficiary.bankCode && { beneficiary: undefined }),
      })}
      fields={[
        {
          amountMinor: { label: 'Amount, ₦', placeholder: naira(left), hint: 'Empty: all of it.' },
        },
        { reason: { rows: 2 } },
      ]}
      confirm={({ amountMinor = 0n, beneficiary }) => (
        <AmountTo amountMinor={amountMinor || left} {...recipientOf(payment.payer, beneficiary)} />
      )}
      target={({ payout }) => payout?.id ?? ''}
      result={({ payout }) => payout && <Requested payout={payout} />}
    >
      <Recipient payer={payment.payer} businessId={payment.businessId} />
    </Action>
  )
}

/** Returns an unmatched payment to its payer, or to another account, which needs an approval. */
export function RefundUnmatched({
  payment,
  onClosed,
}: {
  /** Undefined: the payment is not loaded yet. */
  readonly payment: UnmatchedPayment | undefined
  readonly onClosed: () => void
}) {
  const { id = '', amountMinor = 0n, payer } = payment ?? {}
  return (
    <Action
      method={METHODS.refundUnmatchedPayment}
      label="Return"
      isOffered={payment !== undefined}
      says={`A payout returns all of it, ${naira(amountMinor)}. Until then, the payment cannot be assigned.`}
      request={(_form, { beneficiary }) => ({
        unmatchedPaymentId: id,
        ...(beneficiary && !beneficiary.bankCode && { beneficiary: undefined }),
      })}
      fields={[{ reason: { rows: 2 } }]}
      confirm={({ beneficiary }) => (
        <AmountTo amountMinor={amountMinor} {...recipientOf(payer, beneficiary)} />
      )}
      target={id}
      result={({ payout }) => payout && <Requested payout={payout} />}
      onClosed={onClosed}
    >
      <Recipient payer={payer} businessId={undefined} />
    </Action>
  )
}

/** The return of a held payment is requested first; its refund then completes the return. */
function isRefundable({ status, imported, holdState }: Transaction): boolean {
  return status === TransactionStatus.SUCCESS && !imported && holdState !== HoldState.HELD
}

/** The remaining amount of a payment. A returned refund still counts as refunded: its money went to the balance. */
function refundableMinor({ payment, refunds }: RefundsProps): bigint {
  return refunds
    .filter((refund) => isTaken(refund) || refund.status === PayoutStatus.RETURNED)
    .reduce((sum, { amountMinor }) => sum - amountMinor, payment.amountMinor)
}

function recipientOf(payer: Payer | undefined, other: Partial<Beneficiary> | undefined) {
  const { accountName = '', accountNumber = '', bankName = '' } = other ?? {}
  if (accountName !== '') return { accountName, accountNumber, bankName }
  return {
    accountName: payer?.name || 'the payer',
    accountNumber: payer?.accountNumber ?? '',
    bankName: payer?.bankName || payer?.bankCode || '',
  }
}

/** The payer if the bank stated the payer's account, unless another account is chosen. */
function Recipient({
  payer,
  businessId,
}: {
  readonly payer: Payer | undefined
  readonly businessId: string | undefined
}) {
  const [isOther, setOther] = useState(false)
  const isKnown = /^\d{10}$/.test(payer?.accountNumber ?? '')
  const says = isKnown
    ? `The payer is ${payer?.name || 'not named'}: ${payer?.accountNumber}, ${payer?.bankName || payer?.bankCode}.`
    : 'The bank did not state the account of the payer: a refund needs another account, and an approval.'
  return (
    <>
      <p className="hint">{says}</p>
      {isKnown && (
        <Tick isOn={isOther} onChange={setOther} label="To another account, after an approval" />
      )}
      {(isOther || !isKnown) && <BeneficiaryFields path="beneficiary" businessId={businessId} />}
    </>
  )
}
