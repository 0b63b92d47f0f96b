import { createHash } from 'node:crypto'
import { AccountService } from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { ReconciliationService } from '../../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { MAGIC_PHONES } from '../../../src/banks/sandbox.ts'
import { newId } from '../../../src/core/ids.ts'
import { createEncrypter } from '../../../src/crypto/encryption.ts'
import { encryptNotification } from '../../../src/notifications/raw-notification.ts'
import { MASTER_KEY } from '../../support/master-key.ts'
import { CUSTOMER, type Make, type Request, type Scene } from './scene.ts'

/** An account of the scene's business that stays pending. */
export async function pendingAccount({ service, businessId }: Scene, fresh: string) {
  const reference = fresh
  const phone = MAGIC_PHONES.refuses
  const request = { businessId, reference, bank: Bank.BANK_9PSB, ...CUSTOMER, phone }
  await service
    .client(AccountService)
    .createAccount(request)
    .catch(() => undefined)
  return { businessId, reference }
}

/** An open account of the scene's business. */
export async function openAccount({ service, businessId }: Scene, fresh: string) {
  const request = { businessId, reference: fresh, bank: Bank.BANK_9PSB, ...CUSTOMER }
  await service.client(AccountService).createAccount(request)
  return { businessId, reference: fresh }
}

/** An open account of the scene's business that is split, which the call ends. */
async function splitAccount(scene: Scene, fresh: string) {
  const { service, businessId, otherBusinessId } = scene
  const recipients = [{ businessId: otherBusinessId, basisPoints: 1 }]
  const request = { businessId, reference: fresh, bank: Bank.BANK_9PSB, ...CUSTOMER }
  await service.client(AccountService).createAccount({ ...request, split: { recipients } })
  return { businessId, reference: fresh }
}

/** A business that is not approved as a recipient of the scene's. */
async function newRecipient({ service, businessId }: Scene) {
  return { businessId, recipientId: (await service.business()).id }
}

const sessionOf = (fresh: string) => fresh.replaceAll(/[^\w.]/g, '-').slice(-64)

/** An unmatched payment. */
async function unmatchedPayment({ service }: Scene, fresh: string) {
  const sessionId = sessionOf(fresh)
  await service.client(TransactionService).recordPayment({
    bank: Bank.BANK_9PSB,
    accountNumber: '0000000000',
    sessionId,
    amountMinor: 700n,
  })
  const { rows } = await service.database.pool.query(
    'select id from unmatched_payment where session_id = $1',
    [sessionId],
  )
  return { unmatchedPaymentId: rows[0].id as string }
}

/** An account of another provider, with a number and references of its own. */
function importedRow(fresh: string) {
  const hash = createHash('sha256').update(fresh).digest()
  return {
    reference: fresh,
    providerReference: `R-${hash.toString('hex').slice(0, 20)}`,
    bank: Bank.BANK_9PSB,
    accountNumber: `${hash.readUInt32BE()}`.padStart(10, '0'),
    accountName: 'ACME/Ada Obi',
    ...CUSTOMER,
  }
}

/** A notification in manual review. */
async function notification({ service }: Scene, fresh: string, state: string) {
  const id = newId('ntf', Date.now())
  const encrypter = createEncrypter(MASTER_KEY)
  const raw = { headers: {}, rawBody: Buffer.from('{"amount":7}'), pathSecret: '' }
  await service.database.pool.query(
    `insert into bank_notification (id, bank, body_digest, received_at, raw_encrypted, bank_key, state,
        outcome, cause, tries, account_number, session_id, amount_minor)
      values ($1, '9PSB', $2, now(), $3, 'key', $5, 'MANUAL_REVIEW', 'the amount differs', 1,
        '1234567890', $4, 700)`,
    [id, Buffer.from(id), encryptNotification(encrypter, id, raw), sessionOf(fresh), state],
  )
  return { notificationId: id }
}

const heldNotification: Make = (scene, fresh) => notification(scene, fresh, 'MANUAL_REVIEW')
const processedNotification: Make = (scene, fresh) => notification(scene, fresh, 'PROCESSED')

/** A report that contradicts the payment of the scene, each by another account number. */
async function paymentConflict({ service, sessionId }: Scene, fresh: string) {
  const hash = createHash('sha256').update(fresh).digest()
  const accountNumber = `${hash.readUInt32BE()}`.padStart(10, '0')
  await service.client(TransactionService).recordPayment({
    ...{ bank: Bank.BANK_9PSB, accountNumber, sessionId, amountMinor: 700n },
  })
  const { rows } = await service.database.pool.query(
    'select id from payment_conflict where account_number = $1',
    [accountNumber],
  )
  return { conflictId: rows[0].id as string }
}

/** A call of each rpc that banks and their openings are about, which goes well. */
export const BANK_HAPPY: Readonly<Record<string, Make>> = {
  'AccountService.CloseAccount': openAccount,
  'AccountService.SetAccountSplit': splitAccount,
  'AccountService.ApproveSplitRecipient': newRecipient,
  'AccountService.RevokeSplitRecipient': async (scene) => {
    const recipient = await newRecipient(scene)
    await scene.service.client(AccountService).approveSplitRecipient(recipient)
    return recipient
  },
  'AccountService.ListSplitRecipients': ({ businessId }) => ({ businessId, pageSize: 1 }),
  'AccountService.ResolveAccount': async (scene, fresh) => ({
    ...(await pendingAccount(scene, fresh)),
    // A token that is restricted to the business may call it too.
    resolution: { case: 'notOpened', value: true },
  }),
  'AccountService.ImportAccounts': ({ businessId }, fresh) => ({
    businessId,
    accounts: [importedRow(fresh)],
  }),
  'TransactionService.ImportTransactions': ({ businessId, accountNumber }, fresh) => ({
    businessId,
    transactions: [
      {
        sessionId: sessionOf(fresh),
        bank: Bank.BANK_9PSB,
        accountNumber,
        amountMinor: 5n,
        paidAt: { seconds: 1_700_000_000n },
      },
    ],
  }),
  'ReconciliationService.ListUnmatchedPayments': () => ({ pageSize: 1 }),
  'ReconciliationService.ListPaymentConflicts': () => ({ pageSize: 1 }),
  'ReconciliationService.ResolvePaymentConflict': async (scene, fresh) => ({
    ...(await paymentConflict(scene, fresh)),
    note: 'the bank corrected it',
  }),
  'NotificationService.ListNotifications': () => ({ pageSize: 1 }),
  'ReconciliationService.ListReconciliationRuns': () => ({}),
  'NotificationService.ListHeldNotifications': () => ({ pageSize: 1 }),
  'NotificationService.ShowNotification': heldNotification,
  'NotificationService.RetryNotification': heldNotification,
  'NotificationService.ResolveNotification': async (scene, fresh) => ({
    ...(await heldNotification(scene, fresh)),
    note: 'the bank reversed it',
  }),
  'ReconciliationService.AssignUnmatchedPayment': async (scene, fresh) => ({
    ...(await unmatchedPayment(scene, fresh)),
    businessId: scene.businessId,
    reference: scene.reference,
  }),
  'ReconciliationService.Reconcile': ({ accountNumber }, fresh) => ({
    bank: Bank.BANK_9PSB,
    apply: true,
    rows: [{ accountNumber, amountMinor: 700n, sessionId: sessionOf(fresh) }],
  }),
  'ReconciliationService.ListRecordedPayments': () => ({
    bank: Bank.BANK_9PSB,
    from: { seconds: 1_700_000_000n },
    to: { seconds: 4_000_000_000n },
    pageSize: 1,
  }),
  'ReconciliationService.ReturnUnmatchedPayment': async (scene, fresh) => ({
    ...(await unmatchedPayment(scene, fresh)),
    note: 'sent back',
  }),
}

const invalid =
  (request: Request): Make =>
  () =>
    request

const nothing: Make = ({ businessId }) => ({ businessId, reference: 'nothing' })

/** A call for each error that those rpcs name. */
export const BANK_ERRORS: Readonly<Record<string, Make>> = {
  'AccountService.CloseAccount validation_failed': invalid({}),
  'AccountService.CloseAccount not_found': nothing,
  'AccountService.CloseAccount account_pending': pendingAccount,
  'AccountService.SetAccountSplit validation_failed': ({ businessId, reference }) => ({
    ...{ businessId, reference },
    split: { recipients: [{ businessId, basisPoints: 1 }] },
  }),
  'AccountService.SetAccountSplit not_found': nothing,
  'AccountService.ApproveSplitRecipient validation_failed': ({ businessId }) => ({
    ...{ businessId, recipientId: businessId },
  }),
  'AccountService.ApproveSplitRecipient not_found': ({ businessId }) => ({
    ...{ businessId: 'biz_nobody', recipientId: businessId },
  }),
  'AccountService.RevokeSplitRecipient validation_failed': invalid({}),
  'AccountService.ListSplitRecipients validation_failed': invalid({}),
  'AccountService.SetAccountSplit account_pending': pendingAccount,
  'AccountService.CloseAccount bank_unavailable': async (scene, fresh) => {
    const account = await openAccount(scene, fresh)
    await scene.service.database.pool.query(
      "update account set connector = 'live' where merchant_reference = $1",
      [fresh],
    )
    return account
  },
  'AccountService.ImportAccounts validation_failed': ({ businessId }) => ({ businessId }),
  'AccountService.ImportAccounts not_found': (_scene, fresh) => ({
    businessId: 'biz_nobody',
    accounts: [importedRow(fresh)],
  }),
  'TransactionService.ImportTransactions validation_failed': ({ businessId }) => ({ businessId }),
  'TransactionService.ImportTransactions not_found': () => ({
    businessId: 'biz_nobody',
    transactions: [{}],
  }),
  'AccountService.ResolveAccount validation_failed': ({ businessId, reference }) => ({
    businessId,
    reference,
    resolution: { case: 'opened', value: { accountNumber: '123' } },
  }),
  'AccountService.ResolveAccount not_found': (scene, fresh) => ({
    ...(nothing(scene, fresh) as Request),
    resolution: { case: 'notOpened', value: true },
  }),
  'AccountService.ResolveAccount account_not_pending': ({ businessId, reference }) => ({
    businessId,
    reference,
    resolution: { case: 'notOpened', value: true },
  }),
  'AccountService.ResolveAccount bank_unavailable': async (scene, fresh) => {
    const account = await pendingAccount(scene, fresh)
    await scene.service.database.pool.query(
      "update account set claimed_until = now() + interval '1 hour' where merchant_reference = $1",
      [fresh],
    )
    return { ...account, resolution: { case: 'notOpened', value: true } }
  },
  'ReconciliationService.ListUnmatchedPayments validation_failed': invalid({ pageSize: 201 }),
  'ReconciliationService.ListPaymentConflicts validation_failed': invalid({ pageSize: 201 }),
  'ReconciliationService.ResolvePaymentConflict validation_failed': invalid({ conflictId: 'x' }),
  'ReconciliationService.ResolvePaymentConflict not_found': invalid({
    conflictId: 'cfl_nothing',
    note: 'x',
  }),
  'NotificationService.ListNotifications validation_failed': () => ({ sessionId: 'x' }),
  'ReconciliationService.ListReconciliationRuns validation_failed': () => ({ bank: 99 }),
  'NotificationService.ListHeldNotifications validation_failed': invalid({ pageSize: 201 }),
  'NotificationService.ShowNotification validation_failed': invalid({}),
  'NotificationService.ShowNotification not_found': invalid({ notificationId: 'ntf_nothing' }),
  'NotificationService.RetryNotification validation_failed': invalid({}),
  'NotificationService.RetryNotification not_found': invalid({ notificationId: 'ntf_nothing' }),
  'NotificationService.RetryNotification not_held': processedNotification,
  'NotificationService.ResolveNotification validation_failed': invalid({}),
  'NotificationService.ResolveNotification not_found': invalid({
    notificationId: 'ntf_nothing',
    note: 'x',
  }),
  'NotificationService.ResolveNotification not_held': async (scene, fresh) => ({
    ...(await processedNotification(scene, fresh)),
    note: 'x',
  }),
  'ReconciliationService.Reconcile validation_failed': invalid({
    bank: Bank.BANK_9PSB,
    rows: [{ accountNumber: '1234567890', amountMinor: 1n }],
  }),
  'ReconciliationService.ListRecordedPayments validation_failed': invalid({ bank: 1 }),
  'ReconciliationService.AssignUnmatchedPayment validation_failed': invalid({ note: '\n' }),
  'ReconciliationService.AssignUnmatchedPayment not_found': ({ businessId, reference }) => ({
    unmatchedPaymentId: 'unm_nothing',
    businessId,
    reference,
  }),
  'ReconciliationService.AssignUnmatchedPayment payment_resolved': async (scene, fresh) => {
    const payment = await unmatchedPayment(scene, fresh)
    const note = 'sent back'
    const { businessId, reference, service } = scene
    await service.client(ReconciliationService).returnUnmatchedPayment({ ...payment, note })
    return { ...payment, businessId, reference }
  },
  'ReconciliationService.AssignUnmatchedPayment account_pending': async (scene, fresh) => ({
    ...(await unmatchedPayment(scene, fresh)),
    ...(await pendingAccount(scene, fresh)),
  }),
  'ReconciliationService.ReturnUnmatchedPayment validation_failed': invalid({}),
  'ReconciliationService.ReturnUnmatchedPayment not_found': invalid({
    unmatchedPaymentId: 'unm_nothing',
    note: 'sent back',
  }),
  'ReconciliationService.ReturnUnmatchedPayment payment_resolved': async (scene, fresh) => {
    const payment = await unmatchedPayment(scene, fresh)
    const { businessId, reference, service } = scene
    const assignment = { ...payment, businessId, reference }
    await service.client(ReconciliationService).assignUnmatchedPayment(assignment)
    return { ...payment, note: 'sent back' }
  },
}
