import { readFileSync } from 'node:fs'
import { join } from 'node:path'
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
import { replaceTables } from '../../proto/authorization-tables.ts'
import { readPolicies, readPolicy } from '../../src/auth/method-policy.ts'
import { SERVICES } from '../../src/protobuf/contract-services.ts'

const { createAccount, getAccount } = AccountService.method
const TOKEN = { credential: Credential.TOKEN, scopes: ['read'] }

/** The method CreateAccount with another policy. */
function withPolicy(stated: MessageInitShape<typeof PolicySchema>): DescMethod {
  const options = create(MethodOptionsSchema)
  setExtension(options, policy, create(PolicySchema, stated))
  return { ...createAccount, proto: { ...createAccount.proto, options } }
}

function withRule(
  rule: NonNullable<MessageInitShape<typeof TenantScopeSchema>['rule']>,
): DescMethod {
  return withPolicy({ ...TOKEN, tenantScope: { rule } })
}

const owned = (field: string, resource: Resource) =>
  withRule({ case: 'owned', value: { resources: [{ field, resource }] } })

test('refuses a method without a policy, naming it', () => {
  const bare = { ...createAccount, proto: { ...createAccount.proto, options: undefined } }
  expect(() => readPolicy(bare as DescMethod)).toThrow(
    'inflow.account.v1.AccountService.CreateAccount has no option (inflow.auth.v1.policy)',
  )
  expect(() => readPolicies([getAccount, bare as DescMethod])).toThrow('has no option')
})

test.each([
  ['no credential', withPolicy({ scopes: ['read'] }), /names no credential$/],
  ['no scopes', withPolicy({ credential: Credential.TOKEN }), /needs scopes out of admin, /],
  ['an unknown scope', withPolicy({ ...TOKEN, scopes: ['read', 'write'] }), /needs scopes out of/],
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
  ['a resource of no kind', owned('reference', Resource.UNSPECIFIED), /^reference of .* no kind$/],
  ['an unknown field', withRule({ case: 'businessField', value: 'payer_id' }), /field payer_id/],
  [
    'an unknown unrestricted field',
    withPolicy({
      ...TOKEN,
      tenantScope: { rule: { case: 'businessFilter', value: '' } },
      unrestrictedFields: ['payer_id'],
    }),
    /has no such field payer_id/,
  ],
  [
    'a field that is no list',
    withRule({ case: 'businessesField', value: 'business_id' }),
    /no list field business_id/,
  ],
])('refuses a policy with %s', (_, method, message) => {
  expect(() => readPolicy(method)).toThrow(message)
})

test('the tables of the guide are those of the contract', () => {
  const guide = join(import.meta.dirname, '../../src/docs/authorization.md')
  const document = readFileSync(guide, 'utf8')
  expect(document).toBe(replaceTables(document, SERVICES))
})
