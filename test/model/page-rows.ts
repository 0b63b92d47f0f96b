import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { OpeningState } from '../../gen/inflow/account/v1/account_pb.ts'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { NotificationState } from '../../gen/inflow/notification/v1/notification_pb.ts'
import { PauseScope, PayoutPurpose, PayoutStatus } from '../../gen/inflow/payout/v1/payout_pb.ts'
import { PayoutService } from '../../gen/inflow/payout/v1/payout_service_pb.ts'
import { SessionService } from '../../gen/inflow/session/v1/session_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { HeldPaymentService } from '../../gen/inflow/transaction/v1/held_payment_service_pb.ts'
import { TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { nuban } from '../../src/banks/nuban.ts'
import { MAGIC_PHONES } from '../../src/banks/sandbox.ts'
import { HOUR_MS } from '../../src/core/durations.ts'
import { newId } from '../../src/core/ids.ts'
import { HAPPY } from '../protocols/matrix/rows.ts'
import { DEAF_URL, PAYEE, PAYER, requestPayout, type Scene } from '../protocols/matrix/scene.ts'
import { newDelivery } from '../protocols/matrix/webhook-rows.ts'
import { CUSTOMER } from '../support/opened-account.ts'
import { ADMIN_TOKEN } from '../support/service.ts'
import { signIn } from '../support/sign-in.ts'
import { waitUntil } from '../support/wait-for.ts'

export type Row = Readonly<Record<string, unknown>>
export type Fields = Readonly<Record<string, unknown>>

/** A filter or order of a list, with the rows that it must return, in their order. */
export interface Option {
  readonly request: Fields
  readonly matches: (row: Row) => boolean
  /** The rows come the other way round. */
  readonly isReversed?: boolean
  /** The order is another one. */
  readonly isReordered?: boolean
}

/** A list, and how to create its rows. */
export interface Listing {
  /** Fields of every request. */
  readonly request?: (scene: Scene) => Fields | Promise<Fields>
  /** The list of all businesses, and the options that mean something else there or are refused. */
  readonly everywhere?: { readonly request: Fields; readonly refuses: readonly string[] }
  /** Adds a row, or several. Rows of different numbers differ in what the options filter by. */
  readonly add: (scene: Scene, fresh: string, number: number) => Promise<unknown>
  /** Takes a row out of the list, which needs these fields of the request. */
  readonly remove?: {
    readonly request?: Fields
    readonly row: (scene: Scene, row: Row) => Promise<unknown>
  }
  /** What identifies a row; default: id. */
  readonly id?: string
  /** Every field of the request is here, in `request`, or for paging. */
  readonly options?: (rows: readonly Row[], scene: Scene) => readonly Option[]
  /** The largest page without a size; default: 200. */
  readonly pageMax?: number
  /** Options that leave everything or nothing of these rows. */
  readonly mayLeaveAll?: readonly string[]
  /** Another mode, which is another list, and notifications of a session, which need its payment. */
  readonly untried?: readonly string[]
}

const plain = (text: string) => text.replace(/[^A-Za-z0-9-]/g, '-').slice(-60)
const OTHER_EMAIL = 'other@example.com'

const even = (number: number) => number % 2 === 0
const ofBusiness = ({ businessId }: Scene) => ({ businessId })

/** A time between the first and the last row, which some rows are before and others after. */
function middleOf(rows: readonly Row[], field: string): string {
  const times = rows.map((row) => row[field] as string).toSorted()
  return times[Math.floor(times.length / 2)]!
}

/** Whether a payment is not credited. */
const isHeld = (state: unknown) => /HELD|RETURN/.test(`${state}`)

const toTimestamp = (time: string) => timestampFromMs(Date.parse(time))

/** From a time, and up to it. */
function inPeriod(rows: readonly Row[], field: string): Option[] {
  const middle = middleOf(rows, field)
  const at = toTimestamp(middle)
  const isLater = (row: Row) => Date.parse(row[field] as string) >= Date.parse(middle)
  return [
    { request: { from: at }, matches: isLater },
    { request: { to: at }, matches: (row) => !isLater(row) },
  ]
}

/** The same for a list whose times are texts. */
const inTextPeriod = (rows: readonly Row[], field: string): Option[] => {
  const from = middleOf(rows, field)
  return [
    { request: { from }, matches: (row) => `${row[field]}` >= from },
    { request: { to: from }, matches: (row) => `${row[field]}` < from },
  ]
}

const equals = (request: Fields, field: string, value: unknown): Option => ({
  request,
  matches: (row) => row[field] === value,
})

/** Takes a row out by a statement that has its id as $1. */
const bySql = (text: string): NonNullable<Listing['remove']> => ({
  row: ({ service }, { id }) => service.database.durablePool.query(text, [id]),
})

const bankOf = (number: number) => (even(number) ? Bank.BANK_9PSB : Bank.BANK_PALMPAY)
/** PalmPay opens accounts of identified customers only. */
const IDENTIFIED = { idType: 1, idNumber: '12345678901' }
const atBank = equals({ bank: Bank.BANK_PALMPAY }, 'bank', 'BANK_PALMPAY')
const MODES = [true, false].map((live) => equals({ live }, 'live', live))

async function openAccount(scene: Scene, reference: string, fields: Fields = {}) {
  const { businessId, service } = scene
  const identity = fields['bank'] === Bank.BANK_PALMPAY ? IDENTIFIED : {}
  const given = { bank: Bank.BANK_9PSB, ...CUSTOMER, ...identity, ...fields }
  const request = { businessId, reference, ...given }
  return (await service.client(AccountService).createAccount(request)).account!
}

const NOW_MS = Date.now()

/** A payment of the scene's business, of either mode and at either bank, with any status. */
async function pay(scene: Scene, fresh: string, number: number, fields: Fields = {}) {
  const bank = bankOf(number)
  const account = await openAccount(scene, `account ${fresh}`, { bank, ...fields })
  const statuses = [TransactionStatus.SUCCESS, TransactionStatus.PENDING, TransactionStatus.SUCCESS]
  const { transaction } = await scene.service.client(TransactionService).recordPayment({
    bank,
    accountNumber: account.accountNumber,
    sessionId: plain(fresh),
    amountMinor: 700n + BigInt(number),
    status: statuses[number % 3]!,
    // Each second payment has the time of the one before.
    paidAt: timestampFromMs(NOW_MS - Math.floor(number / 2) * HOUR_MS),
  })
  return transaction!
}

/** Makes what a call of the matrix would change, and returns the request of that call. */
const made = (name: string) => (scene: Scene, fresh: string) =>
  Promise.resolve(HAPPY[name]!(scene, fresh))

const held = made('HeldPaymentService.AcceptPayment')

/** A payment that is held; the return of every second one is requested. */
async function hold(scene: Scene, fresh: string, number: number, mode: Fields = {}) {
  const account = await openAccount(scene, `held ${fresh}`, { amountMinor: 100n, ...mode })
  const { transaction } = await scene.service.client(TransactionService).recordPayment({
    bank: Bank.BANK_9PSB,
    accountNumber: account.accountNumber,
    sessionId: plain(fresh),
    amountMinor: 99n,
  })
  const request = { transactionId: transaction!.id }
  if (even(number)) await scene.service.client(HeldPaymentService).returnPayment(request)
}

const acceptHeld: NonNullable<Listing['remove']>['row'] = ({ service }, { id }) =>
  service.client(HeldPaymentService).acceptPayment({ transactionId: id as string })

const settle = async (scene: Scene, fresh: string, number: number, test = even(number)) => {
  const account = await openAccount(scene, `settled ${fresh}`, { test })
  const { accountNumber } = account
  const payment = { accountNumber, sessionId: plain(fresh), amountMinor: 900n }
  await scene.service.client(TransactionService).recordPayment({ ...payment, bank: Bank.BANK_9PSB })
  const { businessId } = scene
  await scene.service.client(SettlementService).settle({ businessId, test, force: true })
}

const notify = made('NotificationService.ShowNotification')

async function addNotification(scene: Scene, fresh: string, number: number) {
  const { notificationId } = (await notify(scene, fresh)) as { notificationId: string }
  const isProcessed = number % 3 === 0
  // Its id begins with this time.
  const receivedMs = Date.now() - number * HOUR_MS
  await scene.service.database.durablePool.query(
    `update bank_notification set id = $2, received_at = $3, bank = $4, state = $5, outcome = $6
        where id = $1`,
    [
      notificationId,
      newId('ntf', receivedMs),
      new Date(receivedMs),
      even(number) ? '9PSB' : 'PALMPAY',
      ...(isProcessed ? ['PROCESSED', 'IGNORED'] : ['MANUAL_REVIEW', 'MANUAL_REVIEW']),
    ],
  )
}

/** Calls with other keys are logged meanwhile. */
const LISTED_KEY = 'key_listed'

const revokeToken = (scene: Scene, tokenId: unknown) =>
  scene.service.client(AdminService).revokeToken({ tokenId: tokenId as string })

async function addEndpoint(scene: Scene, fresh: string, number: number) {
  const { businessId, service } = scene
  const url = `http://127.0.0.1:9/${plain(fresh)}`
  const request = { businessId, url, test: even(number) }
  const { endpoint } = await service.client(WebhookService).createEndpoint(request)
  const endpointId = endpoint!.id
  if (number % 3 === 0) {
    await service.client(WebhookService).updateEndpoint({ endpointId, enabled: false })
  }
  if (number % 3 === 1) {
    const failing = 'update webhook_endpoint set failing_since = now() where id = $1'
    await service.database.durablePool.query(failing, [endpointId])
  }
}

/** Endpoints that no event of their own is sent to. */
const quiet = new WeakMap<Scene, Promise<string>>()

function quietEndpoint(scene: Scene): Promise<string> {
  const { businessId, service } = scene
  const request = { businessId, url: DEAF_URL, kinds: ['ENDPOINT_TEST'] }
  const created = async () => {
    return (await service.client(WebhookService).createEndpoint(request)).endpoint!.id
  }
  const known = quiet.get(scene) ?? created()
  quiet.set(scene, known)
  return known
}

/** A delivery of each second event, as if it were of a kind that the endpoint is sent. */
async function addDelivery(scene: Scene, _fresh: string, number: number) {
  const endpointId = await quietEndpoint(scene)
  const { durablePool } = scene.service.database
  const { rows } = await durablePool.query<{ position: string }>(
    `select position from event_log where business_id = $2 and live and position not in
        (select position from webhook_delivery where endpoint_id = $1) order by position limit 1`,
    [endpointId, scene.businessId],
  )
  const id = await newDelivery(scene, endpointId, Number(rows[0]!.position))
  if (even(number)) return
  await durablePool.query(
    "update webhook_delivery set state = 'PENDING', completed_at = null where id = $1",
    [id],
  )
}

const OTHER_PAYEE = { ...PAYEE, accountNumber: nuban('058', 145_700_002) }

/** A payout of either mode, to either account, rejected or not; every fifth one is a refund. */
async function addPayout(scene: Scene, fresh: string, number: number) {
  const { service, businessId } = scene
  const client = service.client(PayoutService)
  if (number % 5 === 4) {
    const payment = { bank: Bank.BANK_9PSB, accountNumber: scene.accountNumber, amountMinor: 700n }
    const { transaction } = await service
      .client(TransactionService)
      .recordPayment({ ...payment, sessionId: plain(fresh), payer: PAYER })
    return client.refundTransaction({ transactionId: transaction!.id, amountMinor: 100n })
  }
  const live = number % 4 !== 1
  if (!live) await fundTestMode(scene, fresh, number)
  const payoutId = await requestPayout(service, businessId, {
    reference: fresh,
    account: number % 3 === 2 ? OTHER_PAYEE : PAYEE,
    live,
  })
  return number % 3 === 0 ? client.rejectPayout({ payoutId }) : undefined
}

async function fundTestMode(scene: Scene, fresh: string, number: number): Promise<void> {
  const settlements = scene.service.client(SettlementService)
  const { businessId } = scene
  await settle(scene, fresh, number, true)
  await waitUntil(async () => {
    await settlements.settle({ businessId, live: false, force: true })
    const { balance } = await settlements.getBalance({ businessId, live: false })
    return (balance?.availableMinor ?? 0n) >= 100n
  })
}

const customerOf = async (scene: Scene, fresh: string) =>
  openAccount(scene, fresh, { email: 'customer@example.com' })

/** All lists of the contract. A new list needs an entry. */
export const LISTINGS: Readonly<Record<string, Listing>> = {
  'AccountService.ListAccounts': {
    request: ofBusiness,
    everywhere: { request: {}, refuses: ['customerEmail'] },
    add: async (scene, fresh, number) => {
      const isPending = number === 3 || number === 5
      const phone = isPending ? { phone: MAGIC_PHONES.refuses } : {}
      const identity = number === 2 ? { idType: 1, idNumber: '22212345678' } : {}
      const mode = { test: even(number), ...(number < 3 && { email: OTHER_EMAIL }) }
      const fields = { bank: bankOf(number), ...mode, ...phone, ...identity }
      const opened = openAccount(scene, fresh, fields)
      await (isPending ? opened.catch(() => undefined) : opened)
      const closed = { businessId: scene.businessId, reference: fresh }
      if (number === 4) await scene.service.client(AccountService).closeAccount(closed)
      if (number !== 5) return
      await scene.service.database.durablePool.query(
        "update account set opening_state = 'MANUAL_REVIEW' where merchant_reference = $1",
        [fresh],
      )
    },
    options: () => [
      { request: { status: 3 }, matches: ({ status }) => status === 'ACCOUNT_STATUS_CLOSED' },
      ...MODES,
      atBank,
      {
        request: { idNumber: '22212345678', idType: 1 },
        matches: ({ merchantReference }) => `${merchantReference}`.endsWith(' 2'),
      },
      {
        request: { customerEmail: OTHER_EMAIL },
        matches: ({ customer }) => (customer as Row)['email'] === OTHER_EMAIL,
      },
      {
        request: { customerEmail: CUSTOMER.email, status: 3 },
        matches: ({ status }) => status === 'ACCOUNT_STATUS_CLOSED',
      },
      {
        request: { openingStates: [1, 2, 3, 4, 5] },
        matches: ({ status }) => status === 'ACCOUNT_STATUS_PENDING',
      },
      {
        request: { openingStates: [OpeningState.MANUAL_REVIEW] },
        matches: ({ opening }) => (opening as Row)?.['state'] === 'OPENING_STATE_MANUAL_REVIEW',
      },
    ],
  },
  'AccountService.ListSplitRecipients': {
    request: ofBusiness,
    id: 'recipientId',
    add: async (scene, fresh) => {
      const request = await made('AccountService.ApproveSplitRecipient')(scene, fresh)
      await scene.service.client(AccountService).approveSplitRecipient(request)
    },
    remove: {
      row: ({ service, businessId }, { recipientId }) => {
        const request = { businessId, recipientId: recipientId as string }
        return service.client(AccountService).revokeSplitRecipient(request)
      },
    },
  },
  'AdminService.ListTokens': {
    add: async (scene, fresh, number) => {
      const issued = await scene.service
        .client(AdminService)
        .issueToken({ name: fresh, scopes: ['read'] })
      if (even(number)) await revokeToken(scene, issued.token!.id)
    },
    remove: { request: { active: true }, row: (scene, { id }) => revokeToken(scene, id) },
    options: () => [
      { request: { active: true }, matches: ({ revokedAt }) => revokedAt === undefined },
      { request: { active: false }, matches: ({ revokedAt }) => revokedAt !== undefined },
    ],
  },
  'AdminService.ListAuditEntries': {
    id: 'number',
    add: async ({ service, businessId }, fresh, number) => {
      const { token } = await service.client(AdminService).issueToken({
        name: fresh,
        scopes: ['admin'],
        businessIds: [businessId],
      })
      if (even(number)) await service.client(AdminService).revokeToken({ tokenId: token!.id })
    },
    options: (rows, { businessId }) => {
      const { targetId } = rows[2]!
      return [
        ...inPeriod(rows, 'at'),
        equals({ businessId }, 'businessId', businessId),
        equals({ targetId }, 'targetId', targetId),
        equals({ action: 'token.revoke' }, 'action', 'token.revoke'),
        { request: { actorId: 'bootstrap' }, matches: () => false },
        { request: { oldestFirst: true }, matches: () => true, isReversed: true },
      ]
    },
    mayLeaveAll: ['actorId', 'oldestFirst'],
  },
  'BusinessService.ListBusinesses': {
    add: ({ service }, fresh) => service.business(fresh),
    options: (rows) => [
      {
        request: { businessIds: [rows[1]!['id'], rows[3]!['id']] },
        matches: ({ id }) => id === rows[1]!['id'] || id === rows[3]!['id'],
      },
      { request: { query: `${rows[1]!['id']}` }, matches: ({ id }) => id === rows[1]!['id'] },
    ],
  },
  'BusinessService.ListKeys': {
    request: ofBusiness,
    add: ({ service, businessId }) => service.client(BusinessService).issueKey({ businessId }),
  },
  'BusinessService.ListApiRequests': {
    request: ({ businessId }) => ({ businessId, keyId: LISTED_KEY }),
    everywhere: { request: { keyId: LISTED_KEY }, refuses: [] },
    add: async ({ service, businessId }, fresh, number) => {
      const receivedMs = NOW_MS + number * 1_000
      const isFailed = number % 3 === 0
      const path = even(number) ? '/v2/thirdparty/getBalance/' : '/v2/thirdparty/listEvents/'
      await service.database.durablePool.query(
        `insert into api_request values ($1, $2, $3, $4, $5, $6, $7, 'rest', $8, 1, $9, '::1', $10, '', '', '', 0)`,
        [
          newId('arq', receivedMs),
          businessId,
          number % 4 < 2,
          isFailed,
          LISTED_KEY,
          new Date(receivedMs),
          path,
          isFailed ? 404 : 200,
          plain(fresh),
          isFailed ? 'not_found' : '',
        ],
      )
    },
    options: (rows) => {
      const { requestId } = rows[2]!
      return [
        ...inPeriod(rows, 'receivedAt'),
        ...MODES,
        equals({ statusClass: 4 }, 'status', 404),
        equals({ statusClass: 2 }, 'status', 200),
        equals({ path: 'GETBALANCE' }, 'path', '/v2/thirdparty/getBalance/'),
        equals({ requestId }, 'requestId', requestId),
      ]
    },
  },
  'NotificationService.ListHeldNotifications': {
    add: (scene, fresh, number) => addNotification(scene, fresh, even(number) ? 4 : 1),
    remove: bySql(
      "update bank_notification set state = 'PROCESSED', outcome = 'IGNORED' where id = $1",
    ),
    options: () => [atBank],
  },
  'NotificationService.ListNotifications': {
    add: addNotification,
    options: (rows) => {
      return [
        ...inPeriod(rows, 'receivedAt'),
        atBank,
        equals({ state: NotificationState.PROCESSED }, 'state', 'NOTIFICATION_STATE_PROCESSED'),
        equals({ results: [5] }, 'result', 'NOTIFICATION_RESULT_IGNORED'),
      ]
    },
    untried: ['sessionId'],
  },
  'OverviewService.ListReviewItems': {
    add: (scene, fresh, number) => {
      if (number % 3 === 0)
        return made('ReconciliationService.ReturnUnmatchedPayment')(scene, fresh)
      return hold(scene, fresh, 1, { test: number % 3 === 1 })
    },
    remove: { request: { kinds: [5] }, row: acceptHeld },
    options: (_rows, { businessId }) => [
      equals({ businessId }, 'businessId', businessId),
      { request: { kinds: [5] }, matches: ({ kind }) => kind === 'REVIEW_KIND_HELD_PAYMENT' },
      {
        request: { kinds: [5], live: false },
        matches: ({ kind, live }) => kind === 'REVIEW_KIND_HELD_PAYMENT' && live === false,
      },
    ],
  },
  'PayoutService.ListBanks': {
    id: 'code',
    pageMax: 1_000,
    add: async () => undefined,
  },
  'PayoutService.ListPayouts': {
    request: ofBusiness,
    everywhere: { request: {}, refuses: [] },
    add: addPayout,
    options: (rows) => {
      const refund = rows.find(({ transactionId }) => transactionId !== '')!
      const { transactionId } = refund
      return [
        ...inPeriod(rows, 'createdAt'),
        ...MODES,
        equals({ statuses: [PayoutStatus.REJECTED] }, 'status', 'PAYOUT_STATUS_REJECTED'),
        {
          request: { statuses: [PayoutStatus.PENDING_APPROVAL, PayoutStatus.UNKNOWN] },
          matches: ({ status }) => status === 'PAYOUT_STATUS_PENDING_APPROVAL',
        },
        equals({ purpose: PayoutPurpose.REFUND }, 'purpose', 'PAYOUT_PURPOSE_REFUND'),
        equals({ transactionId }, 'transactionId', transactionId),
        {
          request: { accountNumber: OTHER_PAYEE.accountNumber },
          matches: ({ beneficiary }) =>
            (beneficiary as Row)['accountNumber'] === OTHER_PAYEE.accountNumber,
        },
        {
          request: { accountNumber: OTHER_PAYEE.accountNumber, live: true, transactionId },
          matches: () => false,
        },
        { request: { batchId: 'unknown' }, matches: () => false },
      ]
    },
    mayLeaveAll: ['batchId', 'transactionId'],
  },
  'PayoutService.ListBatches': {
    request: ofBusiness,
    add: async (scene, fresh) => {
      const request = await made('PayoutService.CreatePayouts')(scene, fresh)
      await scene.service.client(PayoutService).createPayouts(request)
    },
  },
  'PayoutService.ListBeneficiaries': {
    request: ofBusiness,
    id: 'firstUsedAt',
    add: async ({ service, businessId }, fresh, number) => {
      const accountNumber = nuban('058', 145_700_100 + number)
      const payoutId = await requestPayout(service, businessId, {
        reference: fresh,
        account: { ...PAYEE, accountNumber },
      })
      const approver = { name: fresh, scopes: ['payouts:approve'] }
      const { secret } = await service.client(AdminService).issueToken(approver)
      await service.client(PayoutService, secret).approvePayout({ payoutId })
    },
    untried: ['live'],
  },
  'PayoutService.ListPayoutDiscrepancies': {
    add: made('PayoutService.ResolvePayoutDiscrepancy'),
    remove: bySql('update payout_discrepancy set resolved_at = now() where id = $1'),
  },
  'PayoutService.ListPauses': {
    id: 'pausedAt',
    add: async ({ service }, _fresh, number) => {
      const target =
        number === 0
          ? { scope: PauseScope.BANK, bank: Bank.BANK_PROVIDUS }
          : { scope: PauseScope.BUSINESS, businessId: (await service.business()).id }
      await service.client(PayoutService).pausePayouts({ ...target, reason: 'drill' })
    },
    remove: {
      row: ({ service }, { businessId }) =>
        service
          .client(PayoutService)
          .resumePayouts(
            businessId === ''
              ? { scope: PauseScope.BANK, bank: Bank.BANK_PROVIDUS }
              : { scope: PauseScope.BUSINESS, businessId: businessId as string },
          ),
    },
    options: (rows) => {
      const { businessId } = rows.find((row) => row['businessId'] !== '')!
      return [
        {
          request: { businessId },
          matches: (row) => [businessId, ''].includes(row['businessId'] as string),
        },
      ]
    },
  },
  'ReconciliationService.ListUnmatchedPayments': {
    add: async ({ service }, fresh, number) =>
      service.client(TransactionService).recordPayment({
        bank: bankOf(number),
        accountNumber: even(number) ? '0000000000' : '0000000001',
        sessionId: plain(fresh),
        amountMinor: 700n,
      }),
    remove: bySql(
      "update unmatched_payment set resolution = 'RETURNED', resolved_at = now() where id = $1",
    ),
    options: () => [atBank, equals({ accountNumber: '0000000000' }, 'accountNumber', '0000000000')],
  },
  'ReconciliationService.ListRecordedPayments': {
    request: () => ({
      bank: Bank.BANK_9PSB,
      from: timestampFromMs(Date.now() - 99 * HOUR_MS),
      to: timestampFromMs(Date.now() + HOUR_MS),
    }),
    id: 'transactionId',
    add: (scene, fresh, number) => pay(scene, fresh, 2 * number),
    options: (rows) => inPeriod(rows, 'paidAt'),
  },
  'ReconciliationService.ListPaymentConflicts': {
    add: made('ReconciliationService.ResolvePaymentConflict'),
    remove: bySql('update payment_conflict set resolved_at = now() where id = $1'),
  },
  'SessionService.ListSessions': {
    add: async ({ service }, _fresh, number) => {
      await signIn(service, { token: ADMIN_TOKEN })
      const { sessions } = await service.client(SessionService).listSessions({ pageSize: 1 })
      const sessionId = sessions[0]!.id
      if (even(number)) await service.client(SessionService).revokeSession({ sessionId })
    },
    remove: {
      request: { activeOnly: true },
      row: ({ service }, { id }) =>
        service.client(SessionService).revokeSession({ sessionId: id as string }),
    },
    options: () => [equals({ activeOnly: true }, 'active', true)],
  },
  'SessionService.ListPortalLinks': {
    add: async ({ service, businessId, otherBusinessId }, _fresh, number) => {
      const sessions = service.client(SessionService)
      const { portalLink } = await sessions.createPortalLink({
        businessId: number % 3 === 0 ? otherBusinessId : businessId,
      })
      if (even(number)) await sessions.revokePortalLink({ portalLinkId: portalLink!.id })
    },
    remove: {
      request: { activeOnly: true },
      row: ({ service }, { id }) =>
        service.client(SessionService).revokePortalLink({ portalLinkId: id as string }),
    },
    options: (_rows, { businessId }) => [
      equals({ businessId }, 'businessId', businessId),
      { request: { activeOnly: true }, matches: ({ revokedAt }) => revokedAt === undefined },
    ],
  },
  'SettlementService.ListSettlements': {
    request: ofBusiness,
    add: settle,
    options: (rows) => [
      ...inPeriod(rows, 'startedAt'),
      ...MODES,
      equals({ settlementId: rows[1]!['id'] }, 'id', rows[1]!['id']),
    ],
  },
  'SettlementService.ListEntries': {
    request: ofBusiness,
    id: 'sequence',
    add: (scene, fresh, number) => settle(scene, fresh, number, false),
    options: (rows) => {
      const [first, second] = rows.filter((row) => row['settlementId'] !== '')
      // The entry of the settlement before is booked after what it covers.
      const between = (row: Row) =>
        Number(first!['sequence']) <= Number(row['sequence']) &&
        Number(row['sequence']) < Number(second!['sequence'])
      return [
        ...inPeriod(rows, 'bookedAt'),
        { request: { settlementId: second!['settlementId'] }, matches: between },
      ]
    },
    untried: ['live', 'test'],
  },
  'SettlementService.ListHolidays': {
    id: 'day',
    add: ({ service }, name, number) => {
      const day = `2028-0${1 + (number % 9)}-0${1 + (Math.floor(number / 9) % 9)}`
      return service.client(SettlementService).addHoliday({ day, name })
    },
    remove: {
      row: ({ service }, { day }) =>
        service.client(SettlementService).removeHoliday({ day: day as string }),
    },
  },
  'ThirdPartyService.GetVirtualAccount': {
    request: () => ({ email: 'customer@example.com', reference: '' }),
    id: 'reference',
    add: customerOf,
  },
  'ThirdPartyService.ListTransactions': {
    id: 'transaction_ref',
    add: pay,
    options: (rows) => {
      const { reference, session_id: sessionId } = rows[1]!
      const isCredited = (row: Row) => row['status'] === 'SUCCESS' && !isHeld(row['hold_state'])
      return [
        ...inTextPeriod(rows, 'created_at'),
        equals({ reference }, 'reference', reference),
        equals({ sessionId }, 'session_id', sessionId),
        equals({ status: 'PENDING' }, 'status', 'PENDING'),
        {
          request: { recordedFrom: '2020-01-01 00:00:00' },
          matches: isCredited,
          isReordered: true,
        },
        {
          request: { recordedTo: '2099-01-01 00:00:00' },
          matches: isCredited,
          isReordered: true,
        },
      ]
    },
  },
  'ThirdPartyService.ListBanks': {
    id: 'bank_code',
    pageMax: 1_000,
    add: async () => undefined,
  },
  'ThirdPartyService.ListPayouts': {
    id: 'payout_id',
    add: addPayout,
    options: (rows) => [
      equals({ status: 'REJECTED' }, 'status', 'REJECTED'),
      ...inTextPeriod(rows, 'created_at'),
    ],
    mayLeaveAll: ['from', 'to', 'status'],
  },
  'ThirdPartyService.ListHeldPayments': { id: 'transaction_ref', add: held },
  'ThirdPartyService.ListVirtualAccounts': {
    id: 'reference',
    add: async (scene, fresh, number) => {
      await openAccount(scene, fresh)
      const closed = { businessId: scene.businessId, reference: fresh }
      if (even(number)) await scene.service.client(AccountService).closeAccount(closed)
    },
    options: () => [equals({ status: 'CLOSED' }, 'status', 'CLOSED')],
  },
  'ThirdPartyService.ListSettlements': {
    id: 'settlement_id',
    add: (scene, fresh, number) => settle(scene, fresh, number, false),
  },
  'ThirdPartyService.GetStatement': {
    id: 'sequence',
    add: (scene, fresh, number) => settle(scene, fresh, number, false),
    options: (rows) => inTextPeriod(rows, 'booked_at'),
    mayLeaveAll: ['from', 'to'],
  },
  'ThirdPartyService.ListDeliveries': {
    request: async (scene) => ({ endpointId: await quietEndpoint(scene) }),
    id: 'delivery_id',
    add: addDelivery,
    options: (rows) => [
      equals({ status: 'PENDING' }, 'status', 'PENDING'),
      equals({ eventId: rows[1]!['event_id'] }, 'event_id', rows[1]!['event_id']),
    ],
  },
  'HeldPaymentService.ListHeldPayments': {
    request: ofBusiness,
    add: (scene, fresh, number) => hold(scene, fresh, number, { test: number % 3 === 0 }),
    remove: { request: { holdState: 1 }, row: acceptHeld },
    options: () => [equals({ holdState: 1 }, 'holdState', 'HOLD_STATE_HELD'), ...MODES],
  },
  'TransactionService.ListTransactions': {
    request: ofBusiness,
    everywhere: {
      request: { live: true },
      refuses: ['live', 'from', 'to', 'reference', 'customerEmail', 'recordedFrom', 'recordedTo'],
    },
    add: async (scene, fresh, number) => {
      const heldOf = { email: OTHER_EMAIL, test: even(number) }
      if (number % 3 === 2) return hold(scene, fresh, number, heldOf)
      return pay(scene, fresh, number)
    },
    options: (rows) => {
      const { accountReference: reference, sessionId } = rows[1]!
      const PENDING = 'TRANSACTION_STATUS_PENDING'
      const isLive = ({ live, status, holdState }: Row) =>
        live === true && status !== PENDING && !isHeld(holdState)
      return [
        ...inPeriod(rows, 'paidAt'),
        equals({ reference }, 'accountReference', reference),
        equals({ sessionId }, 'sessionId', sessionId),
        equals({ customerEmail: OTHER_EMAIL }, 'customerEmail', OTHER_EMAIL),
        // Those of all businesses come in the order of payment.
        { ...equals({ status: 1 }, 'status', PENDING), isReordered: true },
        { request: { statuses: [2, 4] }, matches: ({ status }) => status !== PENDING },
        ...MODES,
        atBank,
        {
          request: { amountFromMinor: 702n },
          matches: ({ amountMinor }) => Number(amountMinor) >= 702,
        },
        {
          request: { amountToMinor: 702n },
          matches: ({ amountMinor }) => Number(amountMinor) <= 702,
        },
        equals({ variances: [2] }, 'variance', 'VARIANCE_UNDERPAID'),
        equals({ holdStates: [1] }, 'holdState', 'HOLD_STATE_HELD'),
        {
          request: { live: true, recordedFrom: timestampFromMs(0) },
          matches: isLive,
          isReordered: true,
        },
        {
          request: { live: true, recordedTo: toTimestamp('2099-01-01') },
          matches: isLive,
          isReordered: true,
        },
      ]
    },
  },
  'WebhookService.ListEndpoints': {
    request: ofBusiness,
    everywhere: { request: {}, refuses: [] },
    add: addEndpoint,
    remove: {
      row: ({ service }, { id }) =>
        service.client(WebhookService).deleteEndpoint({ endpointId: id as string }),
    },
    options: () => [
      ...MODES,
      equals({ status: 2 }, 'status', 'ENDPOINT_STATUS_DISABLED'),
      { request: { failing: true }, matches: ({ failingSince }) => failingSince !== undefined },
      { request: { failing: false }, matches: ({ failingSince }) => failingSince === undefined },
    ],
  },
  'WebhookService.ListDeliveries': {
    request: async (scene) => ({ endpointId: await quietEndpoint(scene) }),
    add: addDelivery,
    options: (rows, { businessId }) => [
      ...inPeriod(rows, 'createdAt'),
      { request: { businessId }, matches: () => true },
      equals({ eventId: rows[1]!['eventId'] }, 'eventId', rows[1]!['eventId']),
      equals({ status: 1 }, 'status', 'DELIVERY_STATUS_PENDING'),
      {
        request: { statuses: [2] },
        matches: ({ status }) => status === 'DELIVERY_STATUS_DELIVERED',
      },
      { request: { live: true }, matches: () => true },
      { request: { live: false }, matches: () => false },
    ],
    mayLeaveAll: ['live', 'businessId'],
  },
}
