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
import type { AuditKeys } from '../auth/audit/audit-hash.ts'
import type { Actor, InternalCaller } from '../auth/caller.ts'
import { type PolicyOf, readPolicies } from '../auth/method-policy.ts'
import type { RateLimits } from '../auth/rate-limits/rate-limits.ts'
import { createAdminRpc } from '../auth/rpc.ts'
import { portalLinkOwner } from '../auth/sessions/portal-links.ts'
import { idIn, tokenIdOf } from '../auth/tokens/token-secret.ts'
import {
  createAuthenticateKey,
  createFindKey,
  type KeyUses,
} from '../businesses/authenticate-key.ts'
import { keyOwner } from '../businesses/keys.ts'
import type { RequestLog } from '../businesses/request-log.ts'
import { createBusinessRpc } from '../businesses/rpc.ts'
import { keyIdOf } from '../businesses/secret-key.ts'
import type { Config } from '../config/config.ts'
import type { Encrypter } from '../crypto/encryption.ts'
import { eventOwner } from '../events/read-log.ts'
import { createEventRpc, STREAM_TIMING } from '../events/subscribe.ts'
import { createNotificationRpc } from '../notifications/rpc.ts'
import { createOverviewRpc } from '../overview/rpc.ts'
import { findPayout } from '../payouts/store.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { createSemaphore } from '../postgres/semaphore.ts'
import { requeryAccount } from '../reconciliation/requery-account.ts'
import { createReconciliationRpc } from '../reconciliation/rpc.ts'
import { createSandboxRpc } from '../sandbox/rpc.ts'
import { simulatePayment } from '../sandbox/simulate-payment.ts'
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
import { createDecisions, createHeldPaymentRpc, createTransactionRpc } from '../transactions/rpc.ts'
import { createSetSplit } from '../transactions/set-split.ts'
import type { DecisionDependencies } from '../transactions/variance/decide-held.ts'
import { deliveryOwner, endpointOwner } from '../webhooks/endpoints/list-endpoints.ts'
import type { Domains } from './compose-domains.ts'
import { createReady } from './ready.ts'
import type { ServiceOptions } from './service-options.ts'

/** How many simulated reversals hold a connection at once. */
const SIMULATED_REVERSALS_MAX = 2

type ReversalRequest = Parameters<typeof reverseTransaction>[2]

/** What the implementations of the rpcs need. */
interface Dependencies {
  readonly runtime: Runtime
  readonly options: ServiceOptions
  readonly domains: Domains
  readonly encrypter: Encrypter
  /** Aborts when the service stops: streams then end. */
  readonly draining: AbortSignal
}

/** Composes every rpc and the pipeline that its calls pass. */
export function composeInvokers(dependencies: Dependencies): readonly Invoker[] {
  const { runtime, options, encrypter } = dependencies
  const { keyUses, requests, limits, sessions } = dependencies.domains
  const check = createCheck()
  const implementations = [
    ...paymentServices(dependencies, check),
    ...eventServices(dependencies),
    ...operatorServices(dependencies),
  ]
  const methods = implementations.flatMap(({ service }) => service.methods)
  const pipeline = composePipeline(runtime, {
    config: options.config,
    check,
    keyUses,
    requests,
    limits,
    sessions,
    policyOf: readPolicies(methods),
    auditKeys: encrypter,
  })
  return createInvokers(implementations, pipeline)
}

function paymentServices(dependencies: Dependencies, check: Check): readonly Implementation[] {
  const { runtime, options, domains, encrypter } = dependencies
  const { bankNames } = options.config
  const { aliasOf, settlements } = domains
  const { bankOf, createAccount, recordTokenPayment, recordPayments } = domains.payments
  const decisions = createDecisions()
  return [
    implement(ThirdPartyService, composeThirdPartyRpc(dependencies, decisions)),
    implement(HeldPaymentService, createHeldPaymentRpc(runtime, decisions)),
    implement(
      AccountService,
      createAccountRpc(runtime, {
        bankOf,
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
  decisions: DecisionDependencies,
) {
  const { bankNames } = options.config
  const { timeText, webhooks } = domains
  const { bankOf, createAccount, recordPayment, reconciling } = domains.payments
  const reversal = { semaphore: createSemaphore(SIMULATED_REVERSALS_MAX) }
  const sandbox = {
    timeText,
    recordPayment,
    getTransaction: createGetTransaction(runtime.database.read),
    reverse: (request: ReversalRequest, actor: Actor) =>
      reverseTransaction(runtime, reversal, request, actor),
  }
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
    simulatePayment: (...call) => simulatePayment(runtime, sandbox, ...call),
    requeryAccount: (key) => requeryAccount(runtime, reconciling, key),
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
    implement(NotificationService, createNotificationRpc(runtime, { encrypter })),
    implement(BusinessService, createBusinessRpc(runtime)),
    implement(AdminService, createAdminRpc(runtime, encrypter)),
    implement(SessionService, domains.sessions.rpc),
    implement(SandboxService, createSandboxRpc(runtime, { timeText, recordPayment, isSimulated })),
  ]
}

interface Options {
  readonly config: Config
  readonly check: Check
  readonly keyUses: KeyUses
  readonly requests: RequestLog
  readonly limits: RateLimits
  readonly policyOf: PolicyOf
  readonly sessions: Pick<Domains['sessions'], 'authenticateToken' | 'authenticateSession'>
  readonly auditKeys: AuditKeys
}

/** The pipeline of every call, whatever its protocol: the first interceptor is the outermost. */
function composePipeline(runtime: Runtime, options: Options): Pipeline {
  const { database, clock, tracing } = runtime
  const { config, check, keyUses, limits, policyOf, sessions } = options
  const { orm, durablePool, recordingPool } = database
  return {
    beforeDecoding: [
      ...(tracing ? [callTracing(tracing)] : []),
      requestLog(options.requests.record, policyOf),
      observation(runtime, policyOf, credentialIdOf),
      limitArrivals(limits, clock, policyOf, credentialIdOf),
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
        options.auditKeys,
      ),
      limitCallers(limits, clock),
      limitStreams(config.streamsPerTokenMax),
    ],
    afterDecoding: [
      validation(check),
      tenantScope(
        {
          key: (id) => keyOwner(orm, id),
          endpoint: (id) => endpointOwner(orm.em.fork(), id),
          delivery: (id) => deliveryOwner(orm.em.fork(), id),
          event: (id) => eventOwner(durablePool, id),
          transaction: (id) => transactionOwner(durablePool, id),
          payout: (id) => findPayout(durablePool, id),
          // Only fields of methods for tokens name a business, and those have no mode.
          business: async (id) => ({ businessId: id, live: true }),
          'portal link': (id) => portalLinkOwner(database, id),
        },
        policyOf,
      ),
    ],
  }
}

const credentialIdOf: CredentialIdOf = (kind, credential) =>
  kind === 'secret key' ? keyIdOf(credential) : (tokenIdOf(credential) ?? idIn('ses', credential))

/** Authenticates services by the URI in their certificate. */
function createAuthenticateCertificate(scopesOf: Config['tlsClientScopes']) {
  return (uri: string): InternalCaller | undefined => {
    const scopes = scopesOf.get(uri)
    return scopes && { kind: 'internal', tokenId: uri, name: uri, scopes }
  }
}
