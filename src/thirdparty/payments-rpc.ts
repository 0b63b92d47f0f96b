import type { ServiceImpl } from '@connectrpc/connect'
import type { ThirdPartyService } from '../../gen/inflow/thirdparty/v2/third_party_service_pb.ts'
import type { AccountKey } from '../accounts/get-account.ts'
import {
  type Actor,
  actorOf,
  type BusinessCaller,
  callingBusiness,
  callSourceKey,
} from '../auth/caller.ts'
import type { TimeText } from '../core/clock.ts'
import { assert } from '../core/errors.ts'
import { parseAmount } from '../core/money.ts'
import { type PaymentTrace, paymentTraceOf } from '../tracing/payment-trace.ts'
import type { ShownTransaction } from '../transactions/transaction.ts'
import { toTransaction } from './message.ts'

/** A new payment, or an earlier one that is reported again. */
type SimulatedPayment =
  | { readonly reference: string; readonly amountMinor: bigint; readonly payerName: string }
  | { readonly sessionId: string }

export interface PaymentDependencies {
  readonly timeText: TimeText
  readonly simulatePayment: (
    caller: BusinessCaller,
    payment: SimulatedPayment,
    actor: Actor,
    trace: PaymentTrace,
  ) => Promise<ShownTransaction>
  readonly requeryAccount: (key: AccountKey) => Promise<{
    readonly account: { readonly reference: string }
    readonly found: number
    readonly recorded: number
  }>
}

type PaymentMethods = Pick<
  ServiceImpl<typeof ThirdPartyService>,
  'simulatePayment' | 'requeryTransaction'
>

/** How a business gets payments that were not reported: from the sandbox, and from its banks. */
export function createPaymentMethods(dependencies: PaymentDependencies): PaymentMethods {
  const { timeText } = dependencies
  return {
    async simulatePayment({ reference, amount, payerName, sessionId }, context) {
      const payment =
        sessionId !== '' ? { sessionId } : { reference, ...readAmount(amount), payerName }
      const caller = callingBusiness(context)
      const recorded = await dependencies.simulatePayment(
        caller,
        payment,
        actorOf(context),
        paymentTraceOf(context.values.get(callSourceKey)),
      )
      return { status: true, message: 'Payment simulated', data: toTransaction(recorded, timeText) }
    },
    async requeryTransaction({ reference }, context) {
      const { businessId, live } = callingBusiness(context)
      const requeried = await dependencies.requeryAccount({ businessId, live, reference })
      const { account, found, recorded } = requeried
      const data = { reference: account.reference, found, recorded }
      return { status: true, message: 'Payments requested from the bank', data }
    },
  }
}

/** @param amount a validated amount */
function readAmount(amount: string): { readonly amountMinor: bigint } {
  const amountMinor = parseAmount(amount)
  assert(amountMinor, 'validation requires an amount greater than 0')
  return { amountMinor }
}
