import {
  AccountService,
  ImportedAccountSchema,
} from '../../gen/inflow/account/v1/account_service_pb.ts'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { EventService } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { NotificationService } from '../../gen/inflow/notification/v1/notification_service_pb.ts'
import { OverviewService } from '../../gen/inflow/overview/v1/overview_service_pb.ts'
import { PayoutService } from '../../gen/inflow/payout/v1/payout_service_pb.ts'
import { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { SandboxService } from '../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { SessionService } from '../../gen/inflow/session/v1/session_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { ThirdPartyService } from '../../gen/inflow/thirdparty/v2/third_party_service_pb.ts'
import { HeldPaymentService } from '../../gen/inflow/transaction/v1/held_payment_service_pb.ts'
import {
  ImportedTransactionSchema,
  RecordPaymentRequestSchema,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { createAccountRpc } from '../accounts/rpc.ts'
import type { Actor, InternalCaller } from '../auth/caller.ts'
import { type MethodPolicy, type PolicyOf, readPolicies } from '../auth/method-policy.ts'
import type { Form } from '../auth/rate-limits/rate-limits.ts'
import { createAdminRpc } from '../auth/rpc.ts'
import { portalLinkOwner } from '../auth/sessions/portal-links.ts'
import { idIn } from '../auth/token-secret.ts'
import { createAuthenticateKey, createFindKey } from '../businesses/authenticate-key.ts'
import { keyOwner } from '../businesses/keys.ts'
import { createBusinessRpc } from '../businesses/rpc.ts'
import { isForeignKey, keyIdOf } from '../businesses/secret-key.ts'
import type { Config } from '../config/config.ts'
import type { Encrypter } from '../crypto/encryption.ts'
import { eventOwner } from '../events/read-log.ts'
import { createEventRpc, STREAM_TIMING } from '../events/subscribe.ts'
import { createStoreListed } from '../notifications/receive-notification.ts'
import { createNotificationRpc } from '../notifications/rpc.ts'
import { createOverviewRpc } from '../overview/rpc.ts'
import { findPayout } from '../payouts/store.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { createSemaphore, type Semaphore } from '../postgres/semaphore.ts'
import { requeryAccount } from '../reconciliation/requery-account.ts'
import { createReconciliationRpc } from '../reconciliation/rpc.ts'
import { createSandboxRpc } from '../sandbox/rpc.ts'
import { simulatePayment } from '../sandbox/simulate-transfer.ts'
import {
  authentication,
  type CredentialIdOf,
  tenantScope,
} from '../server/interceptors/authentication.ts'
import { callTracing, observation } from '../server/interceptors/observation.ts'
import { limitArrivals, limitCallers, limitStreams } from '../server/interceptors/rate-limit.ts'
import { requestLog } from '../server/interceptors/request-log.ts'
import { type Check, createCheck, validation } from '../server/interceptors/validation.ts'
import {
  createInvokers,
  type Implementation,
  type Invoker,
  implement,
  type Pipeline,
} from '../server/invokers.ts'
import { createThirdPartyRpc } from '../thirdparty/rpc.ts'
import { findConfirmedAccounts } from '../transactions/find-reported.ts'
import { createGetTransaction, transactionOwner } from '../transactions/find-transactions.ts'
import { reverseTransaction } from '../transactions/reverse-transaction.ts'
import { createHeldPaymentRpc, createTransactionRpc } from '../transactions/rpc.ts'
import { createSetSplit } from '../transactions/set-split.ts'
import { deliveryOwner, endpointOwner } from '../webhooks/endpoints/list-endpoints.ts'
import type { Domains, ServiceOptions } from './compose-domains.ts'
import { createReady } from './ready.ts'

/** The most changes by secret keys to webhooks and accounts that hold a connection at once. */
const CHANGES_MAX = 4

/** The most decisions about held payments, and closings of accounts by operators, that hold a connection at once. */
const DECISIONS_MAX = 4

/** The most simulated reversals that hold a connection at once. */
const SIMULATED_REVERSALS_MAX = 2

type ReversalRequest = Parameters<typeof reverseTransaction>[2]

/** The dependencies of the rpc implementations. */
interface Dependencies {
  readonly runtime: Runtime
  readonly options: ServiceOptions
  readonly domains: Domains
  readonly encrypter: Encrypter
  /** Aborts when the service stops, which ends streams. */
  readonly draining: AbortSignal
}

/** Composes the implementations of all rpcs, and their pipeline of interceptors. */
export function composeInvokers(dependencies: Dependencies): readonly Invoker[] {
  const check = createCheck()
  const implementations = [
    ...paymentServices(dependencies, check),
    ...eventServices(dependencies),
    ...operatorServices(dependencies),
  ]
  const methods = implementations.flatMap(({ service }) => service.methods)
  const pipeline = composePipeline(dependencies, check, readPolicies(methods))
  return createInvokers(implementations, pipeline)
}

function paymentServices(dependencies: Dependencies, check: Check): readonly Implementation[] {
  const { runtime, options, domains, encrypter } = dependencies
  const { bankNames } = options.config
  const { aliasOf, settlements } = domains
  const { bankOf, createAccount, recordTokenPayment, recordPayments } = domains.payments
  const decisions = createSemaphore(DECISIONS_MAX)
  return [
    implement(ThirdPartyService, composeThirdPartyRpc(dependencies, decisions)),
    implement(HeldPaymentService, createHeldPaymentRpc(runtime, decisions)),
    implement(
      AccountService,
      createAccountRpc(runtime, {
        bankOf,
        semaphore: decisions,
        encrypter,
        createAccount,
        bankNames,
        aliasOf,
        setSplit: createSetSplit(runtime),
        findConfirmed: findConfirmedAccounts,
        checkAccount: (account) => check(ImportedAccountSchema, account),
      }),
    ),
    implement(
      TransactionService,
      createTransactionRpc(runtime, {
        recordPayment: recordTokenPayment,
        recordPayments,
        getTransaction: createGetTransaction(runtime.database.read),
        settlesAtOf: settlements.settlesAtOf,
        checkPayment: (payment) => check(RecordPaymentRequestSchema, payment),
        checkImported: (payment) => check(ImportedTransactionSchema, payment),
        aliasOf,
      }),
    ),
  ]
}

/** The API of external businesses, which calls the use cases of most domains. */
function composeThirdPartyRpc(
  { runtime, options, domains, encrypter }: Dependencies,
  decisions: Semaphore,
) {
  const { bankNames } = options.config
  const { timeText, webhooks } = domains
  const { bankOf, createAccount, recordPayment, reconciling } = domains.payments
  const reversals = createSemaphore(SIMULATED_REVERSALS_MAX)
  const sandbox = {
    timeText,
    recordPayment,
    getTransaction: createGetTransaction(runtime.database.read),
    reverse: (request: ReversalRequest, actor: Actor) =>
      reverseTransaction(runtime, reversals, request, actor),
  }
  const storeListed = createStoreListed(runtime, encrypter)
  return createThirdPartyRpc(runtime, {
    bankOf,
    encrypter,
    createAccount,
    timeText,
    bankNames,
    setSplit: createSetSplit(runtime),
    webhooks: webhooks.context,
    payouts: domains.payouts.context,
    decisions,
    changes: createSemaphore(CHANGES_MAX),
    simulatePayment: (...call) => simulatePayment(runtime, sandbox, ...call),
    requeryAccount: (key) => requeryAccount(runtime, { ...reconciling, storeListed }, key),
  })
}

function eventServices({ runtime, domains, draining }: Dependencies): readonly Implementation[] {
  const { tail } = domains.events
  return [
    implement(
      EventService,
      createEventRpc(runtime, { tail, draining, random: Math.random, timing: STREAM_TIMING }),
    ),
    implement(WebhookService, domains.webhooks.rpc),
  ]
}

function operatorServices({
  runtime,
  options,
  domains,
  encrypter,
  draining,
}: Dependencies): readonly Implementation[] {
  const { timeText, settlements } = domains
  const { recordPayment, reconciling, isSimulated, batches } = domains.payments
  return [
    implement(SettlementService, settlements.rpc),
    implement(PayoutService, domains.payouts.rpc),
    implement(
      OverviewService,
      createOverviewRpc(runtime, {
        bankModes: options.config.banks,
        ready: createReady(runtime.database, batches, draining).reasons,
        settlesAtOf: async (businessId) => {
          const settlesAt = await settlements.settlesAtOf(new Set([businessId]))
          return settlesAt(businessId)
        },
      }),
    ),
    implement(ReconciliationService, createReconciliationRpc(runtime, reconciling)),
    implement(NotificationService, createNotificationRpc(runtime, encrypter)),
    implement(BusinessService, createBusinessRpc(runtime)),
    implement(AdminService, createAdminRpc(runtime, encrypter)),
    implement(SessionService, domains.sessions.rpc),
    implement(SandboxService, createSandboxRpc(runtime, { timeText, recordPayment, isSimulated })),
  ]
}

/** The pipeline of every call, whatever its protocol: the first interceptor is the outermost. */
function composePipeline(
  { runtime, options, domains, encrypter }: Dependencies,
  check: Check,
  policyOf: PolicyOf,
): Pipeline {
  const { database, clock, tracing } = runtime
  const { config } = options
  const { keyUses, requests, limits, sessions } = domains
  const { orm, durablePool, recordingPool } = database
  return {
    beforeDecoding: [
      ...(tracing ? [callTracing(tracing)] : []),
      requestLog(requests.record, policyOf),
      observation(runtime, policyOf, credentialIdOf),
      limitArrivals(limits, clock, policyOf, formOf),
      authentication(
        {
          secretKey: createAuthenticateKey(runtime, {
            findKey: createFindKey(recordingPool),
            onUse: keyUses.record,
          }),
          token: sessions.authenticateToken,
          session: sessions.authenticateSession,
          certificate: createAuthenticateCertificate(config.tlsClientScopes),
        },
        policyOf,
        encrypter,
      ),
      limitCallers(limits, clock),
      limitStreams(config.streamsPerTokenMax),
    ],
    afterDecoding: [
      validation(check),
      tenantScope(
        {
          KEY: (id) => keyOwner(orm, id),
          ENDPOINT: (id) => endpointOwner(orm.em.fork(), id),
          DELIVERY: (id) => deliveryOwner(orm.em.fork(), id),
          EVENT: (id) => eventOwner(durablePool, id),
          TRANSACTION: (id) => transactionOwner(durablePool, id),
          PAYOUT: (id) => findPayout(durablePool, id),
          // Only methods for tokens have fields with the id of a business, and tokens have no mode.
          BUSINESS: async (id) => ({ businessId: id, live: true }),
          PORTAL_LINK: (id) => portalLinkOwner(database, id),
        },
        policyOf,
      ),
    ],
  }
}

const credentialIdOf: CredentialIdOf = (kind, credential) =>
  kind === 'secret key' ? keyIdOf(credential) : (idIn('tok', credential) ?? idIn('ses', credential))

/** An imported key names no id, but costs a look-up all the same. */
const formOf = (kind: MethodPolicy['credential'], credential: string): Form =>
  credentialIdOf(kind, credential) !== undefined ||
  (kind === 'secret key' && isForeignKey(credential))
    ? 'well-formed'
    : 'malformed'

/** Authenticates services by the URI in their certificate. */
function createAuthenticateCertificate(scopesOf: Config['tlsClientScopes']) {
  return (uri: string): InternalCaller | undefined => {
    const scopes = scopesOf.get(uri)
    return scopes && { kind: 'internal', tokenId: uri, name: uri, scopes }
  }
}
