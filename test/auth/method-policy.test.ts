import { create, type DescMethod, type MessageInitShape, setExtension } from '@bufbuild/protobuf'
import { MethodOptionsSchema } from '@bufbuild/protobuf/wkt'
import { expect, test } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import {
  Credential,
  PolicySchema,
  policy,
  Resource,
  type TenantScopeSchema,
} from '../../gen/inflow/auth/v1/policy_pb.ts'
import { EventService } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { readPolicies, readPolicy } from '../../src/auth/method-policy.ts'

const { createAccount, getAccount } = AccountService.method
const { subscribe } = EventService.method
const TOKEN = { credential: Credential.TOKEN, scopes: ['read'] }

/** The method CreateAccount with another policy. */
function withPolicy(
  stated: MessageInitShape<typeof PolicySchema>,
  method: DescMethod = createAccount,
): DescMethod {
  const options = create(MethodOptionsSchema)
  setExtension(options, policy, create(PolicySchema, stated))
  return { ...method, proto: { ...method.proto, options } }
}

function withRule(rule?: MessageInitShape<typeof TenantScopeSchema>['rule']): DescMethod {
  return withPolicy({ ...TOKEN, tenantScope: rule ? { rule } : {} })
}

const owned = (field: string, resource: Resource) =>
  withRule({ case: 'owned', value: { resources: [{ field, resource }] } })

test('reads the policy of a method', () => {
  const key = { credential: Credential.SECRET_KEY, scopes: ['accounts:read', 'accounts:write'] }
  expect(readPolicy(withPolicy(key))).toEqual({
    credential: 'secret key',
    scopes: key.scopes,
    openToUnscopedKeys: false,
    owned: {},
  })
  const resources = [{ field: 'reference', resource: Resource.ENDPOINT }]
  const rule = { case: 'owned', value: { resources } } as const
  expect(
    readPolicy(withPolicy({ ...key, openToUnscopedKeys: true, tenantScope: { rule } })),
  ).toMatchObject({ openToUnscopedKeys: true, owned: { reference: 'endpoint' } })
  const token = { credential: 'token', scopes: ['read'], unrestrictedFields: [] }
  for (const [rule, tenantScope] of [
    [{ case: 'unrestrictedOnly', value: true }, { by: 'unrestricted' }],
    [
      { case: 'businessField', value: 'business_id' },
      { by: 'business', field: 'businessId' },
    ],
    [{ case: 'businessFilter', value: '' }, { by: 'filtered' }],
    [
      { case: 'businessFilter', value: 'business_id' },
      { by: 'filtered', field: 'businessId' },
    ],
  ] as const) {
    expect(readPolicy(withRule(rule))).toEqual({ ...token, tenantScope })
  }
  const fields = { reference: 'transaction' }
  expect(readPolicy(owned('reference', Resource.TRANSACTION))).toEqual({
    ...token,
    tenantScope: { by: 'owned', fields },
  })
  const restricted = { ...TOKEN, tenantScope: { rule: { case: 'businessFilter', value: '' } } }
  const method = withPolicy({ ...restricted, unrestrictedFields: ['bank'] } as never)
  expect(readPolicy(method)).toMatchObject({ unrestrictedFields: [{ name: 'bank' }] })
})

test('reads a field that lists businesses', () => {
  const rule = { case: 'businessesField', value: 'business_ids' } as const
  const method = withPolicy({ ...TOKEN, tenantScope: { rule } }, subscribe)
  expect(readPolicy(method)).toMatchObject({
    tenantScope: { by: 'businesses', field: 'businessIds' },
  })
})

test('refuses a method without a policy, naming it', () => {
  const bare = { ...createAccount, proto: { ...createAccount.proto, options: undefined } }
  expect(() => readPolicy(bare as DescMethod)).toThrow(
    'inflow.account.v1.AccountService.CreateAccount has no option (inflow.auth.v1.policy)',
  )
  expect(() => readPolicies([getAccount, bare as DescMethod])).toThrow('has no option')
})

test('knows the policies of the methods that are served, and of no others', () => {
  const policyOf = readPolicies([createAccount])
  expect(policyOf(createAccount)).toEqual(readPolicy(createAccount))
  expect(() => policyOf(getAccount)).toThrow('every method that is served')
})

test.each([
  ['no credential', withPolicy({ scopes: ['read'] }), /names no credential$/],
  ['no scopes', withPolicy({ credential: Credential.TOKEN }), /needs scopes out of admin, /],
  ['an unknown scope', withPolicy({ ...TOKEN, scopes: ['read', 'write'] }), /needs scopes out of/],
  [
    'a key without scopes',
    withPolicy({ credential: Credential.SECRET_KEY }),
    /needs scopes out of accounts:read, /,
  ],
  [
    'a scope of a token for a key',
    withPolicy({ credential: Credential.SECRET_KEY, scopes: ['read'] }),
    /needs scopes out of accounts:read, /,
  ],
  [
    'a field of the business for a key',
    withPolicy({
      credential: Credential.SECRET_KEY,
      scopes: ['accounts:read'],
      tenantScope: { rule: { case: 'businessField', value: 'business_id' } },
    }),
    /CreateAccount confines keys by a field$/,
  ],
  ['no tenant scope', withPolicy(TOKEN), /has no tenant scope$/],
  ['a tenant scope without a rule', withRule(), /has no tenant scope$/],
  ['a resource of no kind', owned('reference', Resource.UNSPECIFIED), /^reference of .* no kind$/],
  ['an unknown field', withRule({ case: 'businessField', value: 'payer_id' }), /field payer_id/],
  ['an unknown filter', withRule({ case: 'businessFilter', value: 'payer_id' }), /field payer_id/],
  [
    'an unknown unrestricted field',
    withPolicy({
      ...TOKEN,
      tenantScope: { rule: { case: 'businessFilter', value: '' } },
      unrestrictedFields: ['payer_id'],
    }),
    /has no such field payer_id/,
  ],
  ['an unknown owned field', owned('key_id', Resource.KEY), /no scalar field key_id/],
  [
    'a field that is no list',
    withRule({ case: 'businessesField', value: 'business_id' }),
    /no list field business_id/,
  ],
])('refuses a policy with %s', (_, method, message) => {
  expect(() => readPolicy(method)).toThrow(message)
})
