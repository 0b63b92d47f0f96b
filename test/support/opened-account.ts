import type { MessageInitShape } from '@bufbuild/protobuf'
import { createClient, type Transport } from '@connectrpc/connect'
import {
  AccountService,
  type CreateAccountRequestSchema,
} from '../../gen/inflow/account/v1/account_service_pb.ts'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { CUSTOMER } from '../protocols/matrix/scene.ts'

type Given = Omit<MessageInitShape<typeof CreateAccountRequestSchema>, '$typeName'>

/** Creates a business, and opens its account `order-1` at Providus. */
export async function openBusinessOver(transport: Transport) {
  const { business, secretKey } = await createClient(BusinessService, transport).createBusiness({
    name: 'Ada',
  })
  const businessId = business!.id
  const { accountNumber, reference } = await openAccountOver(transport, { businessId })
  return { businessId, secretKey, accountNumber, reference }
}

/** Opens an account of a business, which is `order-1` at Providus in so far as nothing else is given. */
export async function openAccountOver(transport: Transport, given: Given) {
  const { account } = await createClient(AccountService, transport).createAccount({
    reference: 'order-1',
    bank: Bank.BANK_PROVIDUS,
    ...CUSTOMER,
    ...given,
  })
  return account!
}
