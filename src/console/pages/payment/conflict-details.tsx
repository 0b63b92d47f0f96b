import type { PaymentConflict } from '../../../../gen/inflow/reconciliation/v1/payment_conflict_pb.ts'
import { ReconciliationService } from '../../../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import type { Transaction } from '../../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { naira } from '../../format/money.ts'
import { nameOf, STATUSES } from '../../format/payments.ts'
import { Action } from '../../ui/controls/action.tsx'
import { Id } from '../../ui/values.tsx'

/** What is recorded beside what was reported, with the cells that differ marked. */
export function ConflictDetails({
  conflict,
  payment,
}: {
  readonly conflict: PaymentConflict
  readonly payment: Transaction | undefined
}) {
  const rows: readonly (readonly [string, string, string])[] = [
    ['Amount', naira(payment?.amountMinor ?? 0n), naira(conflict.amountMinor)],
    ['Account', payment?.accountNumber ?? '', conflict.accountNumber],
    ['Status', statusName(payment), nameOf(STATUSES, conflict.status)],
  ]
  return (
    <>
      <table className="sides" aria-label="Recorded and reported">
        <thead>
          <tr>
            <td />
            <th scope="col">Recorded</th>
            <th scope="col">Reported</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(([name, ours, theirs]) => (
            <tr key={name} className={ours === theirs ? undefined : 'differs'}>
              <th scope="row">{name}</th>
              <td>{ours}</td>
              <td>
                {theirs}
                {ours !== theirs && <span className="hidden"> differs</span>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <Id text={conflict.id} charsMax={30} />
      <Action
        method={ReconciliationService.method.resolvePaymentConflict}
        label="Resolve"
        isOffered={conflict.resolvedAt === undefined}
        says="Ends the manual review of this report. The recorded payment stays as it is."
        reason="How and why"
        request={(note) => ({ conflictId: conflict.id, note })}
        target={conflict.id}
      />
    </>
  )
}

function statusName(payment: Transaction | undefined): string {
  return payment ? nameOf(STATUSES, payment.status) : ''
}
