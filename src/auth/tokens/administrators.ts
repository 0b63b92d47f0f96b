import type { Pool } from 'pg'
import type { Scope } from '../caller.ts'

type Scopes = ReadonlyMap<string, ReadonlySet<Scope>>

/** The settings by which callers administer the service without a token of the database. */
interface Administrators {
  readonly adminToken: string | undefined
  readonly tlsClientScopes: Scopes
  readonly console: {
    readonly enabled: boolean
    readonly oidc: { readonly roles: Scopes } | undefined
  }
}

/** The warning about a service that accepts no administrator. */
const RISK = {
  found:
    'no caller can administer this service: ADMIN_TOKEN is not set, and no token in the database has the scope admin',
  advice:
    'set ADMIN_TOKEN (openssl rand -base64 32) and restart; issue tokens with it, then remove it again',
} as const

/**
 * Whether any caller can issue keys and tokens: by ADMIN_TOKEN, a token of the database, a client certificate,
 * or a user who signs in by OpenID Connect.
 *
 * @returns the risk; empty: the service can be administered
 */
export async function readAdministratorRisk(
  pool: Pick<Pool, 'query'>,
  { adminToken, tlsClientScopes, console }: Administrators,
): Promise<readonly (typeof RISK)[]> {
  const certificates = [...tlsClientScopes.values()].some((scopes) => scopes.has('admin'))
  const roles = [...(console.oidc?.roles.values() ?? [])]
  // Without roles, the provider's claim names scopes itself.
  const users =
    console.enabled &&
    console.oidc &&
    (roles.length === 0 || roles.some((role) => role.has('admin')))
  if (adminToken !== undefined || certificates || users) return []
  const { rows } = await pool.query<{ found: boolean }>(
    `select exists (select from internal_token where revoked_at is null and business_ids is null
      and (expires_at is null or expires_at > now()) and 'admin' = any(scopes)) as found`,
  )
  return rows[0]?.found ? [] : [RISK]
}
