import { createContextValues } from '@connectrpc/connect'
import { expect, test } from 'vitest'
import { KEY_SCOPES, type KeyScope, SCOPES, type Scope } from '../../../src/auth/caller.ts'
import { readPolicies } from '../../../src/auth/method-policy.ts'
import { Fault } from '../../../src/core/errors.ts'
import { authentication } from '../../../src/server/interceptors/authentication.ts'
import { type Caller, isForTokens, type Verdict, verdictOf } from '../matrix/oracle.ts'
import { allMethods, nameOf } from '../matrix/protocols.ts'

// What the interceptor decides by the scopes of a caller, for every method; test/protocols/matrix/credentials has the
// same over the wire, with a few credentials.
const methods = await allMethods()
const policyOf = readPolicies(methods)
type Method = (typeof methods)[number]

/** How a call ends whose credential makes a caller. */
async function decide(method: Method, caller: Caller): Promise<Verdict> {
  const scopes = new Set('scopes' in caller ? caller.scopes : [])
  const found = (kind: Caller['kind'], as: string) => () =>
    (caller.kind === kind ? { kind: as, scopes, isAddressBound: true } : undefined) as never
  const authenticators = {
    secretKey: found('business', 'business'),
    token: found('token', 'internal'),
  }
  const request = {
    method,
    stream: false,
    contextValues: createContextValues(),
    header: new Headers({ authorization: 'Bearer x' }),
  }
  const next = async () => 'OPEN'
  const run = authentication(authenticators, policyOf, {} as never)(next as never)
  return run(request as never).catch((error) => {
    if (!(error instanceof Fault)) throw error
    if (error.reason === 'unauthorized') return 'UNAUTHENTICATED'
    const what = caller.kind === 'business' ? 'key' : 'token'
    const lacking = policyOf(method).scopes.join(' or ')
    expect([error.reason, error.message]).toEqual([
      'permission_denied',
      `The ${what} lacks the scope ${lacking}`,
    ])
    return 'PERMISSION_DENIED'
  }) as Promise<Verdict>
}

/** The methods of each scope. A change of a policy in the contract has to be confirmed here. */
const SCOPE_METHODS: Readonly<Record<Scope, RegExp>> = {
  admin: /./,
  'payments:write':
    /^(AccountService\.(CreateAccount|CloseAccount)|TransactionService\.RecordPayments?|HeldPaymentService\.(Accept|Return)Payment|OverviewService\.UpdateReviewItem|SandboxService\.SimulateTransfer|SessionService\.(GetCaller|CreateSignInCode))$/,
  'payments:reverse':
    /^(TransactionService\.ReverseTransaction|HeldPaymentService\.CompleteReturn|OverviewService\.UpdateReviewItem|SessionService\.(GetCaller|CreateSignInCode))$/,
  'splits:write':
    /^(AccountService\.SetAccountSplit|SessionService\.(GetCaller|CreateSignInCode))$/,
  'payouts:write':
    /^(PayoutService\.(ListBanks|ResolveAccountName|CreatePayouts?|CancelPayout|RefundTransaction|RefundUnmatchedPayment)|SessionService\.(GetCaller|CreateSignInCode))$/,
  'payouts:approve':
    /^(PayoutService\.(ApprovePayout|RejectPayout|ApproveBatch|RejectBatch|ResolvePayout|PausePayouts|ResumePayouts|ReconcilePayouts|ResolvePayoutDiscrepancy)|OverviewService\.UpdateReviewItem|SessionService\.(GetCaller|CreateSignInCode))$/,
  'webhooks:write':
    /^(WebhookService\.(CreateEndpoint|UpdateEndpoint|DeleteEndpoint|RotateSecret|SwitchSecret|SendTestEvent|Rehearse|Redeliver|SkipDelivery|Recover)|OverviewService\.UpdateReviewItem|SessionService\.(GetCaller|CreateSignInCode))$/,
  read: /^(\w+\.(Get|List|Summarize|Preview)\w+|OverviewService\.Search|AdminService\.VerifyAudit|SessionService\.CreateSignInCode)$/,
  'events:subscribe':
    /^(EventService\.(Subscribe|ListEvents|GetEvent)|WebhookService\.ListEventKinds|SessionService\.(GetCaller|CreateSignInCode))$/,
}

/** The methods of each scope of a key, which have no other. */
const KEY_SCOPE_METHODS: Readonly<Record<KeyScope, RegExp>> = {
  'accounts:read': /^(GetVirtualAccount|ListVirtualAccounts)$/,
  'accounts:create': /^GenerateVirtualAccount$/,
  'accounts:write': /^(Update|Upgrade|Close)VirtualAccount$/,
  'payments:read': /^(GetTransaction|ListTransactions|ListHeldPayments)$/,
  'payments:decide': /^(Accept|Return)Payment$/,
  'payments:requery': /^RequeryTransaction$/,
  'payments:simulate': /^SimulatePayment$/,
  'events:read': /^ListEvents$/,
  'balances:read': /^(GetBalance|ListSettlements|GetStatement)$/,
  'webhooks:read': /^List(Webhooks|Deliveries)$/,
  payouts:
    /^(ListBanks|ResolveAccountName|(Create|Get|Cancel)Payout|ListPayouts|RefundTransaction)$/,
  'webhooks:write': /^((Create|Update|Delete|Test)Webhook|Redeliver|SkipDelivery)$/,
}

/** What a key without scopes may call: it must never grow by itself. Who opens one-time accounts decides on their payments. */
const UNSCOPED_METHODS =
  /^(GenerateVirtualAccount|GetTransaction|GetVirtualAccount|UpgradeVirtualAccount|ListTransactions|ListHeldPayments|AcceptPayment|ReturnPayment|ListEvents|GetBalance)$/

const isOpen = (method: Method, caller: Caller) => verdictOf(method, caller) === 'OPEN'

/** None, each single scope, all but one, and all. */
const setsOf = <T>(scopes: readonly T[]) => [
  [],
  scopes,
  ...scopes.flatMap((scope) => [[scope], scopes.filter((each) => each !== scope)]),
]

test.each(methods.map((method) => [nameOf(method), method] as const))(
  '%s is open to the callers whose scopes its policy names, and to no others',
  async (name, method) => {
    const callers: Caller[] = [
      { kind: 'none' },
      ...setsOf(KEY_SCOPES).map((scopes) => ({ kind: 'business' as const, scopes })),
      ...[SCOPES, SCOPES.filter((scope) => scope !== 'admin')]
        .flatMap<readonly Scope[]>(setsOf)
        .map((scopes) => ({ kind: 'token' as const, scopes })),
    ]
    for (const caller of callers) {
      expect([caller, await decide(method, caller)]).toEqual([caller, verdictOf(method, caller)])
    }
    if (isForTokens(method)) {
      for (const scope of SCOPES) {
        const open = isOpen(method, { kind: 'token', scopes: [scope] })
        expect([scope, open]).toEqual([scope, SCOPE_METHODS[scope].test(name)])
      }
      return
    }
    expect(isOpen(method, { kind: 'business', scopes: [] })).toBe(
      UNSCOPED_METHODS.test(method.name),
    )
    for (const scope of KEY_SCOPES) {
      const open = isOpen(method, { kind: 'business', scopes: [scope] })
      expect([scope, open]).toEqual([scope, KEY_SCOPE_METHODS[scope].test(method.name)])
    }
  },
)

/** What the scope read allows besides: a code hands on the rights of the token, and verifying only reads, but streams. */
const ALSO_READING = ['SessionService.CreateSignInCode', 'AdminService.VerifyAudit']

test('the scope read allows exactly the unary rpcs without side effects, and two others', () => {
  for (const method of methods.filter(isForTokens)) {
    const open = isOpen(method, { kind: 'token', scopes: ['read'] })
    const isReading = method.idempotency === 1 || ALSO_READING.includes(nameOf(method))
    expect([nameOf(method), open]).toEqual([nameOf(method), isReading])
  }
})
