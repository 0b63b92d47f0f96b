import { SettlementService } from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { HeldPaymentService } from '../../../gen/inflow/transaction/v1/held_payment_service_pb.ts'
import { TransactionStatus } from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { idOf, type Make, openAccount, pay, type Scene } from './scene.ts'

const ofBusiness: Make = ({ businessId }) => ({ businessId })
const nobodys: Make = () => ({ businessId: 'biz_nobody' })
const TERMS = { schedule: 3, workingDays: 1, cutOff: '00:00', feeBasisPoints: 150 }

/** A new payment, to name in a request. */
async function paid(
  scene: Scene,
  fresh: string,
  status: TransactionStatus = TransactionStatus.SUCCESS,
) {
  return { transactionId: (await pay(scene, fresh, { status }))!.id }
}

/** A payment that is less than its account expects. */
async function held(scene: Scene, fresh: string) {
  const { accountNumber } = await openAccount(scene, `held ${fresh}`, { amountMinor: 701n })
  return (await pay(scene, fresh, { accountNumber }))!
}

export const heldId = async (scene: Scene, fresh: string) => ({
  transactionId: (await held(scene, fresh)).id,
})
const heldSession = async (scene: Scene, fresh: string) => ({
  sessionId: (await held(scene, fresh)).sessionId,
})

/** A call of each rpc of held payments and settlement that goes well. */
export const MONEY_HAPPY: Readonly<Record<string, Make>> = {
  'HeldPaymentService.AcceptPayment': heldId,
  'HeldPaymentService.ReturnPayment': async (scene, fresh) => ({
    ...(await heldId(scene, fresh)),
    reason: 'paid too little',
  }),
  'HeldPaymentService.CompleteReturn': async (scene, fresh) => {
    const payment = await heldId(scene, fresh)
    await scene.service.client(HeldPaymentService).returnPayment(payment)
    return { ...payment, note: 'by transfer' }
  },
  'HeldPaymentService.ListHeldPayments': ({ businessId }) => ({ businessId, pageSize: 1 }),
  'ThirdPartyService.AcceptPayment': heldSession,
  'ThirdPartyService.ReturnPayment': async (scene, fresh) => ({
    ...(await heldSession(scene, fresh)),
    reason: 'paid too little',
  }),
  'ThirdPartyService.ListHeldPayments': () => ({ pageSize: 1 }),
  'TransactionService.ReverseTransaction': async (scene, fresh) => ({
    ...(await paid(scene, fresh)),
    reason: 'recalled by the bank',
  }),
  'SettlementService.Settle': ({ otherBusinessId }, fresh) => ({
    businessId: otherBusinessId,
    requestId: idOf(fresh),
    force: true,
  }),
  'SettlementService.PreviewSettlement': ({ otherBusinessId }) => ({ businessId: otherBusinessId }),
  'SettlementService.ListSettlements': ofBusiness,
  'SettlementService.GetSettlementCalendar': ({ businessId }) => ({ businessId, month: '2026-01' }),
  'SettlementService.GetBalance': ofBusiness,
  'SettlementService.ListEntries': ({ businessId }) => ({ businessId, pageSize: 1 }),
  'SettlementService.GetSettlementTerms': ofBusiness,
  'SettlementService.UpdateSettlementTerms': ({ otherBusinessId }) => ({
    businessId: otherBusinessId,
    terms: TERMS,
  }),
  'SettlementService.AddHoliday': () => ({ day: '2027-01-01', name: 'New Year' }),
  'SettlementService.RemoveHoliday': async ({ service }) => {
    const day = '2027-10-01'
    await service.client(SettlementService).addHoliday({ day, name: 'Independence Day' })
    return { day }
  },
  'SettlementService.ListHolidays': () => ({ pageSize: 1 }),
  // From before the first business of a verification of 1970, so that all its cursors are the same.
  'SettlementService.VerifyLedger': () => ({
    from: Buffer.from('["0","0","","false"]').toString('base64url'),
  }),
  'ThirdPartyService.GetBalance': () => ({}),
}

/** A call for each error that those rpcs name, where the usual one does not get it. */
export const MONEY_ERRORS: Readonly<Record<string, Make>> = {
  'HeldPaymentService.AcceptPayment not_held': (scene, fresh) => paid(scene, fresh),
  'HeldPaymentService.ReturnPayment validation_failed': () => ({ reason: 'x'.repeat(501) }),
  'HeldPaymentService.ReturnPayment not_held': async (scene, fresh) => {
    const payment = await heldId(scene, fresh)
    await scene.service.client(HeldPaymentService).acceptPayment(payment)
    return payment
  },
  'HeldPaymentService.CompleteReturn not_held': async (scene, fresh) => ({
    ...(await heldId(scene, fresh)),
    note: 'x',
  }),
  'ThirdPartyService.AcceptPayment validation_failed': () => ({ sessionId: 'a b' }),
  'ThirdPartyService.AcceptPayment not_held': ({ sessionId }) => ({ sessionId }),
  'ThirdPartyService.ReturnPayment validation_failed': () => ({ sessionId: 'x', bank: 'x' }),
  'ThirdPartyService.ReturnPayment not_held': ({ sessionId }) => ({ sessionId }),
  'TransactionService.ReverseTransaction validation_failed': () => ({ reason: 'x'.repeat(501) }),
  'TransactionService.ReverseTransaction already_reversed': async (scene, fresh) => {
    const request = { ...(await paid(scene, fresh)), reason: 'x' }
    await scene.service.client(TransactionService).reverseTransaction(request)
    return request
  },
  'TransactionService.ReverseTransaction not_reversible': async (scene, fresh) => ({
    ...(await paid(scene, fresh, TransactionStatus.PENDING)),
    reason: 'x',
  }),
  'TransactionService.ReverseTransaction imported_transaction': async (scene, fresh) => {
    const { service, businessId, accountNumber } = scene
    const sessionId = idOf(fresh)
    const paidAt = { seconds: 1_700_000_000n }
    const row = { sessionId, bank: Bank.BANK_9PSB, accountNumber, amountMinor: 5n, paidAt }
    const client = service.client(TransactionService)
    await client.importTransactions({ businessId, transactions: [row] })
    const { transaction } = await client.getTransaction({ businessId, sessionId })
    return { transactionId: transaction!.id, reason: 'x' }
  },
  'SettlementService.Settle validation_failed': () => ({ requestId: 'a b' }),
  'SettlementService.Settle not_found': nobodys,
  'SettlementService.Settle duplicate_request': async ({ service, otherBusinessId }) => {
    const request = { businessId: otherBusinessId, requestId: 'taken', force: true }
    await service.client(SettlementService).settle(request)
    return { ...request, force: false }
  },
  'SettlementService.UpdateSettlementTerms validation_failed': ({ businessId }) => ({
    businessId,
    terms: { ...TERMS, schedule: 2, cutOff: '24:00' },
  }),
  'SettlementService.AddHoliday validation_failed': () => ({ day: '2026-02-30', name: 'x' }),
  'SettlementService.RemoveHoliday validation_failed': () => ({ day: '2026-02-30' }),
  'SettlementService.RemoveHoliday not_found': () => ({ day: '2026-02-28' }),
  'SettlementService.ListHolidays validation_failed': () => ({ pageToken: 'garbage' }),
  'SettlementService.GetSettlementCalendar validation_failed': () => ({ month: '2026-13' }),
  'SettlementService.VerifyLedger validation_failed': () => ({ from: 'garbage' }),
}
