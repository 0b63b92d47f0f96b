import { defineEntity, type InferEntity, p } from '@mikro-orm/core'
import type { Actor, Scope, SessionKind } from './caller.ts'

const SCOPES_CHECK =
  "cardinality(scopes) > 0 and scopes <@ array['admin', 'payments:write', 'payments:reverse', 'splits:write', 'payouts:write', 'payouts:approve', 'webhooks:write', 'read', 'events:subscribe']"

/** An empty list is not allowed: it could be mistaken for no restriction. */
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
    // The session of a portal is always restricted to its business.
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
    /** When the token expires, which also ends the session; null: never. */
    callerExpiresAt: p.datetime(3).nullable(),
  },
  checks: [
    { name: 'sign_in_code_scopes', expression: SCOPES_CHECK },
    { name: 'sign_in_code_business_ids', expression: BUSINESS_IDS_CHECK },
    { name: 'sign_in_code_proof', expression: "(caller_id = 'bootstrap') = (proof is not null)" },
  ],
})

/** A link that opens the console for one business; it can be used many times. */
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

/** A token of an internal service or an operator. Only the hash of the secret is stored. */
export const TokenEntity = defineEntity({
  name: 'Token',
  tableName: 'internal_token',
  properties: {
    id: p.text().primary(),
    name: p.text(),
    description: p.text(),
    prefix: p.text(),
    secretHash: p.blob(),
    scopes: p.array().$type<Scope[]>(),
    /** The businesses that the token is restricted to; null: not restricted. */
    businessIds: p.array().nullable(),
    createdAt: p.datetime(3),
    expiresAt: p.datetime(3).nullable(),
    revokedAt: p.datetime(3).nullable(),
    lastUsedAt: p.datetime(3).nullable(),
  },
  checks: [
    { name: 'internal_token_scopes', expression: SCOPES_CHECK },
    { name: 'internal_token_business_ids', expression: BUSINESS_IDS_CHECK },
  ],
})

export type Token = InferEntity<typeof TokenEntity>

/** A token bucket shared by all instances. A crash may lose it: buckets start full. */
export const RateBucketEntity = defineEntity({
  name: 'RateBucket',
  tableName: 'rate_bucket',
  properties: {
    name: p.text().primary(),
    /** The level at the time `at`; negative if more requests were admitted than the limit allows. */
    tokens: p.double(),
    perSecond: p.double(),
    burst: p.double(),
    at: p.datetime(3),
  },
})

/**
 * The audit log: append-only, and chained by hashes. A trigger sets number, time and hashes, so
 * that no entry can be inserted outside the chain: see the migration.
 */
export const AuditEntryEntity = defineEntity({
  name: 'AuditEntry',
  tableName: 'audit_entry',
  properties: {
    /** 1, 2, 3 … */
    number: p.bigint().primary().autoincrement(false),
    at: p.datetime(3),
    actorKind: p.text().$type<Actor['kind']>(),
    actorId: p.text(),
    actorName: p.text(),
    address: p.text(),
    requestId: p.text(),
    action: p.text(),
    targetKind: p.text(),
    targetId: p.text(),
    businessId: p.text().nullable(),
    /** A JSON object, as text: the hash covers these exact characters. */
    details: p.text(),
    previousHash: p.blob(),
    hash: p.blob(),
  },
  indexes: [
    { properties: ['businessId', 'number'] },
    { properties: ['actorId', 'number'] },
    { properties: ['targetId', 'number'] },
    { properties: ['action', 'number'] },
  ],
  checks: [
    {
      name: 'audit_entry_actor_kind',
      expression: "actor_kind in ('token', 'secret_key', 'bootstrap', 'system', 'command_line')",
    },
    { name: 'audit_entry_business_id', expression: "business_id <> ''" },
    { name: 'audit_entry_details', expression: 'octet_length(details) <= 4096' },
  ],
})

/** The MAC of an entry. A rotation of the master key replaces it, so it has a table of its own. */
export const AuditMacEntity = defineEntity({
  name: 'AuditMac',
  tableName: 'audit_mac',
  properties: {
    number: p.bigint().primary().autoincrement(false),
    mac: p.blob(),
  },
})

/** One row: the last entry of the audit log. Its row lock serializes appends. */
export const AuditHeadEntity = defineEntity({
  name: 'AuditHead',
  tableName: 'audit_head',
  properties: {
    id: p.integer().primary().autoincrement(false),
    number: p.bigint(),
    hash: p.blob(),
    /** Empty: the service has never started. */
    mac: p.blob(),
  },
  checks: [{ name: 'audit_head_one_row', expression: 'id = 1' }],
})
