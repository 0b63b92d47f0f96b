import { AccountService } from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { HeldPaymentService } from '../../../gen/inflow/transaction/v1/held_payment_service_pb.ts'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { CUSTOMER, type Make, type Scene } from './scene.ts'

/** As an id that a caller chooses. */
const plain = (text: string) => text.replace(/[^A-Za-z0-9-]/g, '-').slice(-60)

/** A payment that is less than its account expects. */
async function held({ service, businessId }: Scene, fresh: string) {
  const { account } = await service.client(AccountService).createAccount({
    businessId,
    reference: `held ${fresh}`,
    bank: Bank.BANK_9PSB,
    ...CUSTOMER,
    amountMinor: 100n,
  })
  const { transaction } = await service.client(TransactionService).recordPayment({
    bank: Bank.BANK_9PSB,
    accountNumber: account!.accountNumber,
    sessionId: plain(fresh),
    amountMinor: 99n,
  })
  return { transactionId: transaction!.id, sessionId: transaction!.sessionId }
}

async function returning(scene: Scene, fresh: string) {
  const { transactionId } = await held(scene, fresh)
  await scene.service.client(HeldPaymentService).returnPayment({ transactionId })
  return { transactionId }
}

/** The id of a payment into a permanent account. */
async function credited({ service, businessId, sessionId }: Scene): Promise<string> {
  const client = service.client(TransactionService)
  return (await client.getTransaction({ businessId, sessionId })).transaction!.id
}

/** A call of each rpc of held payments that goes well. */
export const HELD_HAPPY: Readonly<Record<string, Make>> = {
  'HeldPaymentService.AcceptPayment': async (scene, fresh) => ({
    transactionId: (await held(scene, fresh)).transactionId,
  }),
  'HeldPaymentService.ReturnPayment': async (scene, fresh) => ({
    transactionId: (await held(scene, fresh)).transactionId,
    reason: 'paid too little',
  }),
  'HeldPaymentService.CompleteReturn': async (scene, fresh) => ({
    transactionId: (await returning(scene, fresh)).transactionId,
    note: 'by transfer',
  }),
  'HeldPaymentService.ListHeldPayments': ({ businessId }) => ({ businessId, pageSize: 1 }),
  'ThirdPartyService.AcceptPayment': async (scene, fresh) => ({
    sessionId: (await held(scene, fresh)).sessionId,
  }),
  'ThirdPartyService.ReturnPayment': async (scene, fresh) => ({
    sessionId: (await held(scene, fresh)).sessionId,
    reason: 'paid too little',
  }),
  'ThirdPartyService.ListHeldPayments': () => ({ pageSize: 1 }),
}

const nobodys: Make = () => ({ transactionId: 'txn_nobody' })

/** A call for each error that an rpc of held payments names. */
export const HELD_ERRORS: Readonly<Record<string, Make>> = {
  'HeldPaymentService.AcceptPayment validation_failed': () => ({}),
  'HeldPaymentService.AcceptPayment not_found': nobodys,
  'HeldPaymentService.AcceptPayment not_held': async (scene) => ({
    transactionId: await credited(scene),
  }),
  'HeldPaymentService.ReturnPayment validation_failed': () => ({ reason: 'x'.repeat(501) }),
  'HeldPaymentService.ReturnPayment not_found': nobodys,
  'HeldPaymentService.ReturnPayment not_held': async (scene, fresh) => {
    const { transactionId } = await held(scene, fresh)
    await scene.service.client(HeldPaymentService).acceptPayment({ transactionId })
    return { transactionId }
  },
  'HeldPaymentService.CompleteReturn validation_failed': nobodys,
  'HeldPaymentService.CompleteReturn not_found': () => ({
    transactionId: 'txn_nobody',
    note: 'x',
  }),
  'HeldPaymentService.CompleteReturn not_held': async (scene, fresh) => ({
    transactionId: (await held(scene, fresh)).transactionId,
    note: 'x',
  }),
  'HeldPaymentService.ListHeldPayments validation_failed': () => ({ pageToken: 'garbage' }),
  'ThirdPartyService.AcceptPayment validation_failed': () => ({ sessionId: 'a b' }),
  'ThirdPartyService.AcceptPayment not_found': () => ({ sessionId: 'nothing' }),
  'ThirdPartyService.AcceptPayment not_held': ({ sessionId }) => ({ sessionId }),
  'ThirdPartyService.ReturnPayment validation_failed': () => ({ sessionId: 'x', bank: 'x' }),
  'ThirdPartyService.ReturnPayment not_found': () => ({ sessionId: 'nothing' }),
  'ThirdPartyService.ReturnPayment not_held': ({ sessionId }) => ({ sessionId }),
  'ThirdPartyService.ListHeldPayments validation_failed': () => ({ pageSize: 201 }),
}
