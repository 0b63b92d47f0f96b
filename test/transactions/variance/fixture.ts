import { AccountStatus } from '../../../gen/inflow/account/v1/account_pb.ts'
import { AccountService } from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { SettlementService } from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { HeldPaymentService } from '../../../gen/inflow/transaction/v1/held_payment_service_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import type { BankCode } from '../../../src/banks/bank.ts'
import { creation, until } from '../../protocols/rest/rest.ts'
import type { TestService } from '../../support/service.ts'
import { waitUntil } from '../../support/wait-for.ts'
import { type Payment, paymentInto, transactionsOf } from '../fixture.ts'

// biome-ignore lint/suspicious/noExplicitAny: tests read bodies of many shapes
export type Shown = any

const BANKS: Readonly<Record<BankCode, Bank>> = {
  '9PSB': Bank.BANK_9PSB,
  SAFEHAVEN: Bank.BANK_SAFEHAVEN,
  PROVIDUS: Bank.BANK_PROVIDUS,
  PALMPAY: Bank.BANK_PALMPAY,
}

let sessions = 0

/** A business, and what it does with one-time accounts over REST. */
export async function newBusiness(service: TestService) {
  const { id: businessId, key } = await service.business()
  const call = async (path: string, body: unknown): Promise<Shown> =>
    (await service.post(`${path}/`, key, body)).body
  return {
    businessId,
    key,
    call,
    /** Opens an account with these options. */
    async open(options: Readonly<Record<string, unknown>>, reference = 'order-1') {
      const { data } = await call('generateVirtualAccount', creation({ reference, ...options }))
      const number: string = data.account[0].account_number
      const bank = BANKS[data.account[0].bank_id as BankCode]
      return { data, number, reference, pay: payInto(service, number, bank) }
    },
    /** Waits for so many events of these kinds, and returns them. */
    events: (count: number, ...kinds: readonly string[]): Promise<readonly Shown[]> =>
      until(
        async () => {
          const { data } = await call('listEvents', { limit: 500 })
          return data.events.filter((each: Shown) => kinds.includes(each.event)) as Shown[]
        },
        (found) => found.length >= count,
      ),
    settle: () =>
      service
        .client(SettlementService)
        .settle({ businessId, force: true, requestId: `s-${++sessions}` }),
    balance: async () =>
      (await service.client(SettlementService).getBalance({ businessId })).balance!,
    account: async (reference = 'order-1') =>
      (await service.client(AccountService).getAccount({ businessId, reference })).account!,
    /** Waits until the account has ended by itself. */
    ended: (reference = 'order-1') =>
      waitUntil(async () => {
        const request = { businessId, reference }
        const { account } = await service.client(AccountService).getAccount(request)
        return account?.status === AccountStatus.EXPIRED ? account : undefined
      }),
  }
}

/** Returns a function that records a payment of naira, each with a session of its own. */
function payInto(service: TestService, accountNumber: string, bank: Bank) {
  return async (naira: number, overrides: Payment = {}) => {
    sessions += 1
    const amountMinor = BigInt(naira * 100)
    const payment = { bank, sessionId: `one-time-${sessions}`, amountMinor, ...overrides }
    const { outcome, transaction } = await transactionsOf(service).recordPayment(
      paymentInto(accountNumber, payment),
    )
    return { outcome, transaction: transaction!, sessionId: payment.sessionId }
  }
}

export const heldPaymentsOf = (service: TestService) => service.client(HeldPaymentService)
