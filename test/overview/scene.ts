import { expect } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { OverviewService } from '../../gen/inflow/overview/v1/overview_service_pb.ts'
import { SandboxService } from '../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import type { Transaction } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { CUSTOMER } from '../support/opened-account.ts'
import type { TestService } from '../support/service.ts'
import { issueToken } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'

/** A business with an account. */
export interface Shop {
  readonly businessId: string
  readonly key: string
  readonly reference: string
  readonly merchantReference: string
  readonly accountNumber: string
}

let count = 0

/** Texts that no test used before. */
export const fresh = (prefix: string) => `${prefix}-${process.pid}-${++count}`

/** @param terms of a one-time account */
export async function openShop(
  service: TestService,
  { name = fresh('Shop'), email = CUSTOMER.email, terms = {} } = {},
): Promise<Shop> {
  const { id: businessId, key } = await service.business(name)
  return { key, ...(await openAccount(service, businessId, { email, terms })) }
}

export async function openAccount(
  service: TestService,
  businessId: string,
  { email = CUSTOMER.email, terms = {} }: { email?: string; terms?: object } = {},
) {
  const merchantReference = fresh('order')
  const { account } = await service.client(AccountService).createAccount({
    businessId,
    bank: Bank.BANK_9PSB,
    ...CUSTOMER,
    email,
    ...terms,
    reference: merchantReference,
  })
  const { reference, accountNumber } = account!
  return { businessId, reference, merchantReference, accountNumber }
}

/** Records a payment by a token. */
export async function pay(
  service: TestService,
  { accountNumber }: Pick<Shop, 'accountNumber'>,
  amountMinor = 150_050n,
): Promise<Transaction> {
  const { transaction } = await service.client(TransactionService).recordPayment({
    bank: Bank.BANK_9PSB,
    accountNumber,
    amountMinor,
    sessionId: fresh('session'),
    payer: { name: 'BOLA ADE' },
  })
  return transaction!
}

/** Simulates a transfer, for test accounts too. */
export const transfer = (service: TestService, accountNumber: string, amountMinor = 100n) =>
  service
    .client(SandboxService)
    .simulateTransfer({ accountNumber, sessionId: fresh('session'), amountMinor })

/** Settles what a business has in live mode, once its payments are numbered. @returns the settlement's id */
export async function settleAll(service: TestService, businessId: string, payments: bigint) {
  const client = service.client(SettlementService)
  await waitFor(async () => {
    const { transactionCount } = await client.previewSettlement({ businessId, force: true })
    expect(transactionCount).toBe(payments)
  })
  const { settlements } = await client.settle({ businessId, force: true })
  return settlements[0]!.id
}

/** A client of a token that sees some businesses only. */
export async function restricted(service: TestService, ...businessIds: string[]) {
  const { secret } = await issueToken(service, ['read'], businessIds)
  return service.client(OverviewService, secret)
}

/** A client of an operator who reads only. */
export async function reader(service: TestService) {
  const { secret } = await issueToken(service, ['read'])
  return service.client(OverviewService, secret)
}

/** The name of a value of an enum of the contract. */
export const nameOf = <Enum extends Readonly<Record<string, number>>>(names: Enum, value: number) =>
  Object.keys(names).find((name) => names[name] === value) as keyof Enum & string
