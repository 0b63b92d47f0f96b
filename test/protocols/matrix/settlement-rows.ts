import { SettlementService } from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { TransactionStatus } from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import type { Make, Scene } from './scene.ts'

/** As an id that a caller chooses. */
const plain = (text: string) => text.replace(/[^A-Za-z0-9-]/g, '-')

/** The id of a new payment. */
async function paid(
  { service, accountNumber }: Scene,
  sessionId: string,
  status: TransactionStatus = TransactionStatus.SUCCESS,
): Promise<string> {
  const { transaction } = await service.client(TransactionService).recordPayment({
    bank: Bank.BANK_9PSB,
    accountNumber,
    sessionId: plain(sessionId),
    amountMinor: 700n,
    status,
  })
  return transaction!.id
}

const ofBusiness: Make = ({ businessId }) => ({ businessId })
const nobodys: Make = () => ({ businessId: 'biz_nobody' })
const TERMS = { schedule: 3, workingDays: 1, cutOff: '00:00', feeBasisPoints: 150 }

/** A call of each rpc of settlement that goes well. */
export const SETTLEMENT_HAPPY: Readonly<Record<string, Make>> = {
  'TransactionService.ReverseTransaction': async (scene, fresh) => ({
    transactionId: await paid(scene, fresh),
    reason: 'recalled by the bank',
  }),
  'SettlementService.Settle': ({ otherBusinessId }, fresh) => ({
    businessId: otherBusinessId,
    requestId: plain(fresh),
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

/** A call for each error that an rpc of settlement names. */
export const SETTLEMENT_ERRORS: Readonly<Record<string, Make>> = {
  'TransactionService.ReverseTransaction validation_failed': () => ({ reason: 'x'.repeat(501) }),
  'TransactionService.ReverseTransaction not_found': () => ({
    transactionId: 'txn_nobody',
    reason: 'x',
  }),
  'TransactionService.ReverseTransaction already_reversed': async (scene, fresh) => {
    const transactionId = await paid(scene, fresh)
    const request = { transactionId, reason: 'x' }
    await scene.service.client(TransactionService).reverseTransaction(request)
    return request
  },
  'TransactionService.ReverseTransaction not_reversible': async (scene, fresh) => ({
    transactionId: await paid(scene, fresh, TransactionStatus.PENDING),
    reason: 'x',
  }),
  'TransactionService.ReverseTransaction imported_transaction': async (scene, fresh) => {
    const { service, businessId, accountNumber } = scene
    const sessionId = fresh.replaceAll(/[^\w.]/g, '-').slice(-64)
    const imported = { sessionId, bank: Bank.BANK_9PSB, accountNumber, amountMinor: 5n }
    const client = service.client(TransactionService)
    const paidAt = { seconds: 1_700_000_000n }
    await client.importTransactions({ businessId, transactions: [{ ...imported, paidAt }] })
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
  'SettlementService.PreviewSettlement validation_failed': () => ({}),
  'SettlementService.PreviewSettlement not_found': nobodys,
  'SettlementService.ListSettlements validation_failed': () => ({ pageToken: 'garbage' }),
  'SettlementService.GetBalance validation_failed': () => ({}),
  'SettlementService.GetBalance not_found': nobodys,
  'SettlementService.ListEntries validation_failed': () => ({ pageSize: 1001 }),
  'SettlementService.ListEntries not_found': nobodys,
  'SettlementService.GetSettlementTerms validation_failed': () => ({}),
  'SettlementService.GetSettlementTerms not_found': nobodys,
  'SettlementService.UpdateSettlementTerms validation_failed': ({ businessId }) => ({
    businessId,
    terms: { ...TERMS, schedule: 2, cutOff: '24:00' },
  }),
  'SettlementService.UpdateSettlementTerms not_found': () => ({
    businessId: 'biz_nobody',
    terms: TERMS,
  }),
  'SettlementService.AddHoliday validation_failed': () => ({ day: '2026-02-30', name: 'x' }),
  'SettlementService.RemoveHoliday validation_failed': () => ({ day: '2026-02-30' }),
  'SettlementService.RemoveHoliday not_found': () => ({ day: '2026-02-28' }),
  'SettlementService.ListHolidays validation_failed': () => ({ pageToken: 'garbage' }),
  'SettlementService.GetSettlementCalendar validation_failed': () => ({ month: '2026-13' }),
  'SettlementService.GetSettlementCalendar not_found': () => ({
    businessId: 'biz_nobody',
    month: '2026-01',
  }),
  'SettlementService.VerifyLedger validation_failed': () => ({ from: 'garbage' }),
}
