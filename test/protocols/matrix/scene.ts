import type { DescMessage, MessageInitShape } from '@bufbuild/protobuf'
import { AccountService } from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { AdminService } from '../../../gen/inflow/admin/v1/admin_service_pb.ts'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { PauseScope } from '../../../gen/inflow/payout/v1/payout_pb.ts'
import { PayoutService } from '../../../gen/inflow/payout/v1/payout_service_pb.ts'
import { SandboxService } from '../../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { SessionService } from '../../../gen/inflow/session/v1/session_service_pb.ts'
import { SettlementService } from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { KEY_SCOPES } from '../../../src/auth/caller.ts'
import { nuban } from '../../../src/banks/nuban.ts'
import { simulatedName } from '../../../src/banks/sandbox.ts'
import { CUSTOMER } from '../../support/opened-account.ts'
import { startReceiver } from '../../support/receiver.ts'
import { ADMIN_TOKEN, type TestService } from '../../support/service.ts'
import { signIn } from '../../support/sign-in.ts'
import { until } from '../rest/rest.ts'

export type Request = MessageInitShape<DescMessage> & Record<string, unknown>

/** Makes the request of one call. `fresh` is a text that no call used before. */
export type Make = (scene: Scene, fresh: string) => Request | Promise<Request>

/** A request that is the same in each scene. */
export const invalid =
  (request: Request): Make =>
  () =>
    request

/** What the calls of the matrices are about. */
export interface Scene {
  readonly service: TestService
  readonly businessId: string
  readonly key: string
  /** A live key with every scope. */
  readonly scopedKey: string
  /** A test key with every scope. */
  readonly testKey: string
  readonly accountNumber: string
  readonly reference: string
  readonly sessionId: string
  /** The id of a key that has been revoked. */
  readonly revokedKeyId: string
  /** The id of a token that has been revoked. */
  readonly revokedTokenId: string
  /** The id of a portal link, and of a session, that have been revoked. */
  readonly portalLinkId: string
  readonly revokedSessionId: string
  /** An endpoint that acknowledged the payment, and the delivery to it. */
  readonly endpointId: string
  readonly deliveryId: string
  /** A delivery to an endpoint without a listener: attempted, and due for a retry. */
  readonly failingDeliveryId: string
  /** A payout of the business, `PAYOUT_REFERENCE`. All of its payouts await an approval until a test decides them. */
  readonly payoutId: string
  /** The token that requested it. */
  readonly requester: string
  /** Another business with a payment, whose payouts are paused, and its key with every scope. */
  readonly paused: { readonly businessId: string; readonly key: string; readonly sessionId: string }
  /** A business without anything. */
  readonly otherBusinessId: string
  close(): Promise<void>
}

/** The text of a key as another provider makes them. */
export const importedText = (fresh: string) =>
  `other-provider_${Buffer.from(fresh).toString('hex').padStart(24, '0')}`

/** A key of a business that has nothing else. */
export async function newKey({ service, otherBusinessId }: Scene): Promise<string> {
  const businesses = service.client(BusinessService)
  const { key } = await businesses.issueKey({ businessId: otherBusinessId })
  return key!.id
}

/** Opens an account of the scene's business. */
export async function openAccount(
  { service, businessId }: Pick<Scene, 'service' | 'businessId'>,
  reference: string,
  more = {},
) {
  const request = { businessId, reference, bank: Bank.BANK_9PSB, ...CUSTOMER, ...more }
  const { account } = await service.client(AccountService).createAccount(request)
  return account!
}

/** A text as an id that callers choose. */
export const idOf = (fresh: string) => fresh.replaceAll(/[^A-Za-z0-9-]/g, '-').slice(-60)

/** Records a payment, by default into the account of the scene. */
export async function pay(
  { service, accountNumber }: Pick<Scene, 'service' | 'accountNumber'>,
  fresh: string,
  more = {},
) {
  const { transaction } = await service.client(TransactionService).recordPayment({
    bank: Bank.BANK_9PSB,
    accountNumber,
    sessionId: idOf(fresh),
    amountMinor: 700n,
    ...more,
  })
  return transaction
}

/** The account that payouts go to. */
export const PAYEE = { bankCode: '058', accountNumber: nuban('058', 145_700_001), accountName: '' }

/** Who pays what is refunded: that account. */
export const PAYER = {
  name: simulatedName(PAYEE.accountNumber),
  accountNumber: PAYEE.accountNumber,
  bankCode: '000013',
}

/** The reference of the payout of the scene. */
export const PAYOUT_REFERENCE = 'payout-1'

/** From now on payouts of a business need an approval, so that nothing happens to them by itself. */
export async function holdPayouts(service: TestService, businessId: string): Promise<void> {
  const policy = { businessId, approvalAboveMinor: 0n }
  await service.client(PayoutService).updatePayoutPolicy({ policy })
}

/** Requests a payout. @returns its id */
export async function requestPayout(
  service: TestService,
  businessId: string,
  {
    reference = PAYOUT_REFERENCE,
    amountMinor = 100n,
    account = PAYEE,
    live = true,
    token = ADMIN_TOKEN,
  } = {},
): Promise<string> {
  const client = service.client(PayoutService, token)
  const { resolution } = await client.resolveAccountName({ businessId, live, ...account })
  const request = { businessId, live, reference, amountMinor, beneficiary: account, resolution }
  const { id } = (await client.createPayout(request)).payout!
  await takeAsUnknown(service, id)
  return id
}

/** After a new epoch, which other calls begin, payouts wait until the banks have been asked whether they know them. */
export async function takeAsUnknown({ database }: TestService, payoutId: string): Promise<void> {
  await database.durablePool.query(
    'update payout set generation = (select generation from payout_sender) where id = $1',
    [payoutId],
  )
}

/** The rows that need a test key. */
const OF_TEST_MODE =
  /^ThirdPartyService\.(SimulatePayment(?! not_sandbox)|CreateWebhook too_many|RefundTransaction insufficient)/

/** The credential that may make the call of a row: `ThirdPartyService.GetBalance`, with or without an error. */
export function authorizationOf({ scopedKey, testKey, paused }: Scene, row: string): string {
  if (!row.startsWith('ThirdPartyService.')) return `Bearer ${ADMIN_TOKEN}`
  if (row.endsWith(' payouts_paused')) return `Bearer ${paused.key}`
  return `Bearer ${OF_TEST_MODE.test(row) ? testKey : scopedKey}`
}

/** An address without a listener. */
export const DEAF_URL = 'http://127.0.0.1:9/hook'

/** A business with an account, a payment in it, both events in the log, and their deliveries. */
export async function setScene(service: TestService): Promise<Scene> {
  const { id: businessId, key } = await service.business()
  const receiver = await startReceiver()
  const webhooks = service.client(WebhookService)
  const reached = await webhooks.createEndpoint({ businessId, url: receiver.url })
  const deaf = await webhooks.createEndpoint({ businessId, url: DEAF_URL })
  const { accountNumber, reference } = await openAccount({ service, businessId }, 'order-1')
  const sessionId = 'session-1'
  const transfer = { accountNumber, amountMinor: 150_050n, sessionId }
  await service.client(SandboxService).simulateTransfer(transfer)
  const businesses = service.client(BusinessService)
  const issued = await businesses.issueKey({ businessId })
  await businesses.revokeKey({ keyId: issued.key!.id })
  const scoped = await businesses.issueKey(everything(businessId))
  const test = await businesses.issueKey({ ...everything(businessId), live: false })
  const admin = service.client(AdminService)
  const { token } = await admin.issueToken({ name: 'gone', scopes: ['admin'] })
  await admin.revokeToken({ tokenId: token!.id })
  const { portalLinkId, revokedSessionId } = await makeSession(service, businessId)
  const deliveryTo = async (endpointId: string) => {
    const { deliveries } = await until(
      () => webhooks.listDeliveries({ endpointId }),
      (found) => found.deliveries.some((delivery) => delivery.attemptCount > 0),
    )
    return deliveries[0]!.id
  }
  const deliveryId = await deliveryTo(reached.endpoint!.id)
  const failingDeliveryId = await deliveryTo(deaf.endpoint!.id)
  return {
    service,
    businessId,
    key,
    scopedKey: scoped.secretKey,
    testKey: test.secretKey,
    accountNumber,
    reference,
    sessionId,
    revokedKeyId: issued.key!.id,
    revokedTokenId: token!.id,
    portalLinkId,
    revokedSessionId,
    endpointId: reached.endpoint!.id,
    deliveryId,
    failingDeliveryId,
    ...(await makePayout(service, businessId)),
    paused: await makePaused(service),
    otherBusinessId: (await service.business()).id,
    close: () => receiver.close(),
  }
}

async function makePaused(service: TestService): Promise<Scene['paused']> {
  const { id: businessId } = await service.business()
  const { secretKey: key } = await service.client(BusinessService).issueKey(everything(businessId))
  const { accountNumber } = await openAccount({ service, businessId }, 'order-1')
  const sessionId = 'session-paused'
  await pay({ service, accountNumber }, sessionId, { payer: PAYER })
  const target = { scope: PauseScope.BUSINESS, businessId, reason: 'x' }
  await service.client(PayoutService).pausePayouts(target)
  return { businessId, key, sessionId }
}

/** The rights of a key that may call every method. */
const everything = (businessId: string) => ({
  businessId,
  scopes: [...KEY_SCOPES],
  allowedCidrs: ['127.0.0.0/8'],
})

/** Settles what a business has, once the settlement includes it. */
export async function settleOnce(service: TestService, businessId: string): Promise<void> {
  await until(
    () => service.client(SettlementService).settle({ businessId, force: true }),
    ({ settlements }) => settlements.length === 1,
  )
}

/** Settles what the business has, and requests a payout of it. */
async function makePayout(service: TestService, businessId: string) {
  await settleOnce(service, businessId)
  await holdPayouts(service, businessId)
  const admin = service.client(AdminService)
  const scopes = ['payouts:write']
  const { secret: requester } = await admin.issueToken({ name: 'requester', scopes })
  return { requester, payoutId: await requestPayout(service, businessId, { token: requester }) }
}

/** A portal link, and a session of it. */
export async function openSession(service: TestService, businessId: string) {
  const sessions = service.client(SessionService)
  const { portalLink, urlPath } = await sessions.createPortalLink({ businessId })
  await signIn(service, { code: urlPath.slice(urlPath.indexOf('#') + 1) })
  const { sessions: found } = await sessions.listSessions({ pageSize: 1 })
  return { portalLinkId: portalLink!.id, sessionId: found[0]!.id }
}

/** A portal link and a session of it, both revoked. */
async function makeSession(service: TestService, businessId: string) {
  const { portalLinkId, sessionId } = await openSession(service, businessId)
  const sessions = service.client(SessionService)
  await sessions.revokeSession({ sessionId })
  await sessions.revokePortalLink({ portalLinkId })
  return { portalLinkId, revokedSessionId: sessionId }
}
