import { createHash } from 'node:crypto'
import { AccountService } from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { ReconciliationService } from '../../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { MAGIC_PHONES } from '../../../src/banks/sandbox.ts'
import { newId } from '../../../src/core/ids.ts'
import { createEncrypter } from '../../../src/crypto/encryption.ts'
import { encryptNotification } from '../../../src/notifications/raw-notification.ts'
import { MASTER_KEY } from '../../support/master-key.ts'
import { CUSTOMER } from '../../support/opened-account.ts'
import { idOf, type Make, openAccount, pay, type Scene } from './scene.ts'

/** An account of the scene's business that stays pending. */
export async function pendingAccount(scene: Scene, reference: string, more = {}) {
  const phone = MAGIC_PHONES.refuses
  await openAccount(scene, reference, { phone, ...more }).catch(() => undefined)
  return { businessId: scene.businessId, reference }
}

const openedAccount = async (scene: Scene, reference: string, more = {}) => {
  await openAccount(scene, reference, more)
  return { businessId: scene.businessId, reference }
}

/** An account that a real bank opened, which is not connected. */
export async function awayAccount(scene: Scene, reference: string) {
  await scene.service.database.durablePool.query(
    "update account set connector = 'live' where id = $1",
    [(await openAccount(scene, reference)).id],
  )
  return { businessId: scene.businessId, reference }
}

/** A business that is not approved as a recipient of the scene's. */
async function newRecipient({ service, businessId }: Scene) {
  return { businessId, recipientId: (await service.business()).id }
}

const idWhere = async ({ service }: Scene, table: string, column: string, value: string) => {
  const query = `select id from ${table} where ${column} = $1`
  return (await service.database.durablePool.query<{ id: string }>(query, [value])).rows[0]!.id
}

/** A payment for an account number that is not open, by its id. */
export async function unmatchedPayment(scene: Scene, fresh: string, more = {}) {
  await pay(scene, fresh, { accountNumber: '0000000000', ...more })
  return {
    unmatchedPaymentId: await idWhere(scene, 'unmatched_payment', 'session_id', idOf(fresh)),
  }
}

/** An account number for a text. */
const numberOf = (fresh: string) =>
  `${createHash('sha256').update(fresh).digest().readUInt32BE()}`.padStart(10, '0')

/** An account of another provider, with a number and references of its own. */
function importedRow(fresh: string) {
  return {
    reference: fresh,
    providerReference: `R-${numberOf(fresh)}`,
    bank: Bank.BANK_9PSB,
    accountNumber: numberOf(fresh),
    accountName: 'ACME/Ada Obi',
    ...CUSTOMER,
  }
}

/** A notification in manual review. */
async function notification({ service }: Scene, fresh: string, state: string) {
  const id = newId('ntf', Date.now())
  const encrypter = createEncrypter(MASTER_KEY)
  const raw = { headers: {}, rawBody: Buffer.from('{"amount":7}'), pathSecret: '' }
  await service.database.durablePool.query(
    `insert into bank_notification (id, bank, body_digest, received_at, raw_encrypted, bank_key, state,
        outcome, cause, tries, account_number, session_id, amount_minor)
      values ($1, '9PSB', $2, now(), $3, 'key', $5, 'MANUAL_REVIEW', 'the amount differs', 1,
        '1234567890', $4, 700)`,
    [id, Buffer.from(id), encryptNotification(encrypter, id, raw), idOf(fresh), state],
  )
  return { notificationId: id }
}

const heldNotification: Make = (scene, fresh) => notification(scene, fresh, 'MANUAL_REVIEW')
const processedNotification: Make = (scene, fresh) => notification(scene, fresh, 'PROCESSED')

/** A report that contradicts the payment of the scene, each by another account number. */
async function paymentConflict(scene: Scene, fresh: string) {
  const accountNumber = numberOf(fresh)
  await pay(scene, '', { accountNumber, sessionId: scene.sessionId })
  return { conflictId: await idWhere(scene, 'payment_conflict', 'account_number', accountNumber) }
}

/** A call of each rpc that banks and their openings are about, which goes well. */
export const BANK_HAPPY: Readonly<Record<string, Make>> = {
  'AccountService.CloseAccount': (scene, fresh) => openedAccount(scene, fresh),
  // It is split, which the call ends.
  'AccountService.SetAccountSplit': (scene, fresh) => {
    const recipients = [{ businessId: scene.otherBusinessId, basisPoints: 1 }]
    return openedAccount(scene, fresh, { split: { recipients } })
  },
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
        sessionId: idOf(fresh),
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
    rows: [{ accountNumber, amountMinor: 700n, sessionId: idOf(fresh) }],
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

/** A call for each error that those rpcs name, where the usual one does not get it. */
export const BANK_ERRORS: Readonly<Record<string, Make>> = {
  'AccountService.CloseAccount account_pending': pendingAccount,
  'AccountService.CloseAccount bank_unavailable': awayAccount,
  'AccountService.SetAccountSplit validation_failed': ({ businessId, reference }) => ({
    businessId,
    reference,
    split: { recipients: [{ businessId, basisPoints: 1 }] },
  }),
  'AccountService.SetAccountSplit account_pending': pendingAccount,
  'AccountService.ApproveSplitRecipient validation_failed': ({ businessId }) => ({
    businessId,
    recipientId: businessId,
  }),
  'AccountService.ApproveSplitRecipient not_found': ({ businessId }) => ({
    businessId: 'biz_nobody',
    recipientId: businessId,
  }),
  'AccountService.ResolveAccount validation_failed': ({ businessId, reference }) => ({
    businessId,
    reference,
    resolution: { case: 'opened', value: { accountNumber: '123' } },
  }),
  'AccountService.ResolveAccount account_not_pending': ({ businessId, reference }) => ({
    businessId,
    reference,
    resolution: { case: 'notOpened', value: true },
  }),
  'AccountService.ResolveAccount bank_unavailable': async (scene, fresh) => {
    const account = await pendingAccount(scene, fresh)
    await scene.service.database.durablePool.query(
      "update account set claimed_until = now() + interval '1 hour' where merchant_reference = $1",
      [fresh],
    )
    return { ...account, resolution: { case: 'notOpened', value: true } }
  },
  'NotificationService.RetryNotification not_held': processedNotification,
  'NotificationService.ResolveNotification not_held': async (scene, fresh) => ({
    ...(await processedNotification(scene, fresh)),
    note: 'x',
  }),
  'NotificationService.ListNotifications validation_failed': () => ({ sessionId: 'x' }),
  'ReconciliationService.ListReconciliationRuns validation_failed': () => ({ bank: 99 }),
  'ReconciliationService.Reconcile validation_failed': () => ({
    bank: Bank.BANK_9PSB,
    rows: [{ accountNumber: '1234567890', amountMinor: 1n }],
  }),
  'ReconciliationService.ListRecordedPayments validation_failed': () => ({ bank: 1 }),
  'ReconciliationService.AssignUnmatchedPayment payment_resolved': async (scene, fresh) => {
    const payment = await unmatchedPayment(scene, fresh)
    const { businessId, reference, service } = scene
    const request = { ...payment, note: 'sent back' }
    await service.client(ReconciliationService).returnUnmatchedPayment(request)
    return { ...payment, businessId, reference }
  },
  'ReconciliationService.AssignUnmatchedPayment account_pending': async (scene, fresh) => ({
    ...(await unmatchedPayment(scene, fresh)),
    ...(await pendingAccount(scene, fresh)),
  }),
  'ReconciliationService.ReturnUnmatchedPayment payment_resolved': async (scene, fresh) => {
    const payment = await unmatchedPayment(scene, fresh)
    const { businessId, reference, service } = scene
    const assignment = { ...payment, businessId, reference }
    await service.client(ReconciliationService).assignUnmatchedPayment(assignment)
    return { ...payment, note: 'sent back' }
  },
}
