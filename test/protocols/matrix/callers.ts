import { AdminService } from '../../../gen/inflow/admin/v1/admin_service_pb.ts'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { KEY_SCOPES, SCOPES } from '../../../src/auth/caller.ts'
import { ADMIN_TOKEN, issueToken, type TestService } from '../../support/service.ts'
import { until } from '../rest/rest.ts'
import type { Caller } from './oracle.ts'
import type { Scene } from './scene.ts'

/** A header, and the caller that it makes. */
export interface Credential {
  readonly authorization: string | undefined
  readonly is: Caller
}

/** Credentials by name. */
export type Credentials = Readonly<Record<string, Credential>>

const bearer = (secret: string | undefined, is: Caller): Credential => ({
  authorization: secret === undefined ? undefined : `Bearer ${secret}`,
  is,
})

const NONE: Caller = { kind: 'none' }
const keyOf = (...scopes: readonly string[]): Caller => ({ kind: 'business', scopes })
const tokenOf = (scopes: readonly string[]): Caller => ({ kind: 'token', scopes })

/** Everything but `admin`. */
const LESSER = SCOPES.filter((scope) => scope !== 'admin')

/** One credential of each kind that a call may have. */
export async function makeCredentials(service: TestService, scene: Scene): Promise<Credentials> {
  const { businessId } = scene
  const other = await service.business('Other')
  const businesses = service.client(BusinessService)
  const [test, expired] = await Promise.all([
    businesses.issueKey({ businessId, live: false }),
    businesses.issueKey({ businessId }),
  ])
  const { secret, id } = await issueToken(service, ['admin'])
  const ended = "expires_at = now() - interval '1 s' where id = $1"
  const { durablePool } = service.database
  await durablePool.query(`update api_key set ${ended}`, [expired.key!.id])
  await durablePool.query(`update internal_token set ${ended}`, [id])
  const reader = await issueToken(service, ['read'])
  const lesser = await issueToken(service, LESSER)
  const hooks = await businesses.issueKey({ businessId, scopes: ['webhooks:read'] })
  const restricted = await issueToken(service, [...SCOPES], [businessId])
  return {
    none: bearer(undefined, NONE),
    malformed: bearer('garbage', NONE),
    'an unknown key': bearer(`sk_live_${'0'.repeat(26)}_${'A'.repeat(43)}`, NONE),
    'an unknown token': bearer(`it_${'0'.repeat(26)}_${'A'.repeat(43)}`, NONE),
    'an expired key': bearer(expired.secretKey, NONE),
    'an expired token': bearer(secret, NONE),
    'a revoked key': bearer(await revokedKey(service, businessId), NONE),
    'a revoked token': bearer(await revokedToken(service), NONE),
    'a key with the secret of another': bearer(swapped(scene.key, other.key), NONE),
    'a token with another secret': bearer(swapped(restricted.secret, secret), NONE),
    'a live key': bearer(scene.key, keyOf()),
    'a test key': bearer(test.secretKey, keyOf()),
    "another business's key": bearer(other.key, keyOf()),
    'a key of every scope': bearer(scene.scopedKey, keyOf(...KEY_SCOPES)),
    'a key of webhooks:read': bearer(hooks.secretKey, keyOf('webhooks:read')),
    'a token of read': bearer(reader.secret, tokenOf(['read'])),
    'a token of all but admin': bearer(lesser.secret, tokenOf(LESSER)),
    'the token of the settings': bearer(ADMIN_TOKEN, tokenOf(['admin'])),
    'a restricted token': bearer(restricted.secret, tokenOf(SCOPES)),
  }
}

/** Headers that are not a credential, although they contain a valid one. */
export function malformedHeaders(key: string): Readonly<Record<string, string>> {
  return {
    empty: '',
    'the scheme alone': 'Bearer ',
    'a key of another scheme': `Basic ${key}`,
    'a key without a scheme': key,
    'a key twice': `Bearer ${key} ${key}`,
    'a token of another scheme': `Token ${ADMIN_TOKEN}`,
    'a token without a scheme': ADMIN_TOKEN,
    'a token and more': `Bearer ${ADMIN_TOKEN}x`,
    'a token but for its end': `Bearer ${ADMIN_TOKEN.slice(0, -1)}`,
    'a malformed token': `Bearer it_${'0'.repeat(26)}_short`,
    'too long': `Bearer ${'x'.repeat(600)}`,
  }
}

async function revokedKey(service: TestService, businessId: string): Promise<string> {
  const businesses = service.client(BusinessService)
  const { key, secretKey } = await businesses.issueKey({ businessId })
  await businesses.revokeKey({ keyId: key!.id })
  await until(
    () => service.post('getBalance/', secretKey, {}),
    (answer) => answer.status === 401,
  )
  return secretKey
}

async function revokedToken(service: TestService): Promise<string> {
  const { id, secret } = await issueToken(service, ['admin'])
  await service.client(AdminService).revokeToken({ tokenId: id })
  return secret
}

/** A credential with the id of one and the random part of another. */
function swapped(credential: string, other: string): string {
  return credential.slice(0, -43) + other.slice(-43)
}
