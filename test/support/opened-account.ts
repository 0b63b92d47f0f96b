import type { MessageInitShape } from '@bufbuild/protobuf'
import { createClient, type Transport } from '@connectrpc/connect'
import {
  AccountService,
  type CreateAccountRequestSchema,
} from '../../gen/inflow/account/v1/account_service_pb.ts'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { Schedule } from '../../gen/inflow/settlement/v1/settlement_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'

type Given = Omit<MessageInitShape<typeof CreateAccountRequestSchema>, '$typeName'>

export const CUSTOMER = {
  email: 'ada@example.com',
  phone: '08012345678',
  firstName: 'Ada',
  lastName: 'Obi',
}

/**
 * Creates a business, and opens its account `order-1` at Providus. Its payments stay pending for 30 working days: with the
 * terms of a new business, the service would settle them in a test that runs across midnight in Lagos.
 */
export async function openBusinessOver(transport: Transport) {
  const { business, secretKey } = await createClient(BusinessService, transport).createBusiness({
    name: 'Ada',
  })
  const businessId = business!.id
  const terms = { schedule: Schedule.WORKING_DAYS, workingDays: 30 }
  await createClient(SettlementService, transport).updateSettlementTerms({ businessId, terms })
  const { accountNumber, reference } = await openAccountOver(transport, { businessId })
  return { businessId, secretKey, accountNumber, reference }
}

/** Opens an account of a business, by default `order-1` at Providus. */
export async function openAccountOver(transport: Transport, given: Given) {
  const { account } = await createClient(AccountService, transport).createAccount({
    reference: 'order-1',
    bank: Bank.BANK_PROVIDUS,
    ...CUSTOMER,
    ...given,
  })
  return account!
}
