import { defineEntity, type InferEntity, p } from '@mikro-orm/core'
import type { Scope, SessionKind } from '../caller.ts'

const SCOPES_CHECK =
  "cardinality(scopes) > 0 and scopes <@ array['admin', 'payments:write', 'payments:reverse', 'splits:write', 'payouts:write', 'payouts:approve', 'webhooks:write', 'read', 'events:subscribe']"

/** An empty list would be mistaken for no restriction. */
const BUSINESS_IDS_CHECK = 'cardinality(business_ids) > 0 and cardinality(business_ids) <= 100'

/** A browser that has signed in to the console. Only the hash of the secret is stored. */
export const SessionEntity = defineEntity({
  name: 'Session',
  tableName: 'session',
  properties: {
    id: p.text().primary(),
    kind: p.text().$type<SessionKind>(),
    /** The id of the token, `bootstrap`, the id of the portal link, or `oidc:` and the subject. */
    callerId: p.text(),
    name: p.text(),
    scopes: p.array().$type<Scope[]>(),
    /** The businesses that the session is restricted to; null: not restricted. */
    businessIds: p.array().nullable(),
    secretHash: p.blob(),
    /** Proves a session of ADMIN_TOKEN, which has no row: see `proofOf`. Null for all others. */
    proof: p.blob().nullable(),
    /** The address that signed in. */
    address: p.text(),
    createdAt: p.datetime(3),
    lastUsedAt: p.datetime(3),
    expiresAt: p.datetime(3),
    revokedAt: p.datetime(3).nullable(),
  },
  indexes: [{ properties: ['callerId', 'id'] }],
  checks: [
    { name: 'session_kind', expression: "kind in ('token', 'oidc', 'portal')" },
    { name: 'session_scopes', expression: SCOPES_CHECK },
    { name: 'session_business_ids', expression: BUSINESS_IDS_CHECK },
    {
      name: 'session_proof',
      expression: "(kind = 'token' and caller_id = 'bootstrap') = (proof is not null)",
    },
    // A portal shows one business, and is never without a restriction.
    {
      name: 'session_portal',
      expression: "kind <> 'portal' or (business_ids is not null and not 'admin' = any (scopes))",
    },
  ],
})

/** A code that signs a browser in once, with the rights of a token. It is deleted when it is used. */
export const SignInCodeEntity = defineEntity({
  name: 'SignInCode',
  tableName: 'sign_in_code',
  properties: {
    id: p.text().primary(),
    /** The id of the token, or `bootstrap`. */
    callerId: p.text(),
    name: p.text(),
    scopes: p.array().$type<Scope[]>(),
    businessIds: p.array().nullable(),
    secretHash: p.blob(),
    proof: p.blob().nullable(),
    createdAt: p.datetime(3),
    expiresAt: p.datetime(3),
    /** When the token expires, and so the session at the latest; null: never. */
    callerExpiresAt: p.datetime(3).nullable(),
  },
  checks: [
    { name: 'sign_in_code_scopes', expression: SCOPES_CHECK },
    { name: 'sign_in_code_business_ids', expression: BUSINESS_IDS_CHECK },
    { name: 'sign_in_code_proof', expression: "(caller_id = 'bootstrap') = (proof is not null)" },
  ],
})

/** A link that opens the console for one business, as often as it is opened. */
export const PortalLinkEntity = defineEntity({
  name: 'PortalLink',
  tableName: 'portal_link',
  properties: {
    id: p.text().primary(),
    businessId: p.text(),
    scopes: p.array().$type<Scope[]>(),
    description: p.text(),
    secretHash: p.blob(),
    createdAt: p.datetime(3),
    expiresAt: p.datetime(3),
    revokedAt: p.datetime(3).nullable(),
    lastUsedAt: p.datetime(3).nullable(),
  },
  indexes: [{ properties: ['businessId', 'id'] }],
  checks: [
    {
      name: 'portal_link_scopes',
      expression:
        "cardinality(scopes) > 0 and scopes <@ array['payments:write', 'payments:reverse', 'splits:write', 'payouts:write', 'payouts:approve', 'webhooks:write', 'read', 'events:subscribe']",
    },
  ],
})

export type PortalLink = InferEntity<typeof PortalLinkEntity>
