import { isIP } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import type { Pool } from 'pg'
import type { BusinessCaller } from '../auth/caller.ts'
import { createCredentialCache, type Found } from '../auth/credential-cache.ts'
import type { CredentialHashes } from '../auth/rate-limits/known-credentials.ts'
import { FULL_SECONDS_MAX, type RateLimit } from '../auth/rate-limits/token-bucket.ts'
import { hashSecret } from '../auth/token-secret.ts'
import { isWithin } from '../core/addresses.ts'
import { Fault, type FieldFault, invalidFields } from '../core/errors.ts'
import { firstIdAt } from '../core/ids.ts'
import { createLoop } from '../core/loop.ts'
import { textArray, timestampArray } from '../postgres/binary-arrays.ts'
import type { Runtime } from '../postgres/runtime.ts'
import type { Key } from './business.entity.ts'
import { isForeignKey, keyIdOf, matchesHash } from './secret-key.ts'

/** A valid key. */
interface KnownKey {
  readonly caller: BusinessCaller
  readonly allows: AllowsAddress
  /** Whether `onUse` was called for this cache entry. */
  reported: boolean
}

interface Dependencies {
  readonly findKey: FindKey
  /** Called with epoch milliseconds when a key is used, once per entry of the credential cache. */
  readonly onUse: (keyId: string, atMs: number) => void
}

/**
 * Returns the business of a secret key; undefined if the key is wrong, expired or revoked. Throws
 * Fault address_not_allowed if the key may not be used from the caller's address.
 */
type AuthenticateKey = (
  secret: string,
  address: string,
) => BusinessCaller | undefined | Promise<BusinessCaller | undefined>

export function createAuthenticateKey(
  { clock }: Runtime,
  { findKey, onUse }: Dependencies,
): AuthenticateKey {
  const cache = createCredentialCache<KnownKey>(clock)
  const admit = (known: KnownKey | undefined, address: string): BusinessCaller | undefined => {
    if (known === undefined) return undefined
    if (!known.allows(address)) {
      const { businessId, keyId } = known.caller
      const text = `The key may not be used from the address ${address}`
      const logged = { business_id: businessId, key_id: keyId }
      throw new Fault('address_not_allowed', text, { logged })
    }
    if (!known.reported) {
      known.reported = true
      onUse(known.caller.keyId, clock.now())
    }
    return known.caller
  }
  return (secret, address) => {
    const known = cache(secret, () => verifyKey(findKey, secret))
    if (known instanceof Promise) return known.then((found) => admit(found, address))
    return admit(known, address)
  }
}

/** Reads the key that a secret names from the database and compares its hash. */
async function verifyKey(findKey: FindKey, secret: string): Promise<Found<KnownKey> | undefined> {
  const key = await findKey(secret)
  if (key === undefined || !matchesHash(secret, key.secretHash) || key.revoked) return undefined
  const { id: keyId, businessId, live } = key
  const rateLimit = toRateLimit(key.rateLimitPerSecond, key.rateLimitBurst)
  return {
    value: {
      caller: {
        kind: 'business',
        businessId,
        live,
        keyId,
        scopes: new Set(key.scopes),
        isAddressBound: key.allowedCidrs.length > 0,
        rateLimit,
      },
      allows: createAllowsAddress(key.allowedCidrs),
      reported: false,
    },
    expiresAtMs: key.expiresAtMs ?? undefined,
  }
}

/** The columns of a key, and of its business, that authentication needs. */
interface KeyRow extends Pick<Key, 'id' | 'live' | 'secretHash' | 'allowedCidrs' | 'scopes'> {
  readonly businessId: string
  readonly expiresAtMs: number | null
  readonly revoked: boolean
  readonly rateLimitPerSecond: number | null
  readonly rateLimitBurst: number | null
}

/** Returns the key that a secret names by its id or, if it was imported, by its hash. */
type FindKey = (secret: string) => Promise<KeyRow | undefined>

const KEY_COLUMNS = `k.id, business_id as "businessId", live, secret_hash as "secretHash",
  round(date_part('epoch', expires_at) * 1000) as "expiresAtMs", revoked_at is not null as revoked,
  allowed_cidrs as "allowedCidrs", scopes, rate_limit_per_second as "rateLimitPerSecond",
  rate_limit_burst as "rateLimitBurst"`

export function createFindKey(pool: Pool): FindKey {
  return async (secret) => {
    const keyId = keyIdOf(secret)
    if (keyId === undefined && !isForeignKey(secret)) return undefined
    const { rows } = await pool.query<KeyRow>(
      keyId === undefined
        ? {
            name: 'api-key-find-imported',
            text: `select ${KEY_COLUMNS} from api_key k join business b on b.id = k.business_id
              where imported and secret_hash = $1`,
            values: [hashSecret(secret)],
          }
        : {
            name: 'api-key-find',
            text: `select ${KEY_COLUMNS} from api_key k join business b on b.id = k.business_id
              where k.id = $1`,
            values: [keyId],
          },
    )
    const [row] = rows
    // Copied, because a cached view would keep the driver's whole 64 KiB buffer.
    return row && { ...row, secretHash: Uint8Array.from(row.secretHash) }
  }
}

/** Whether a key may be used from an address. */
type AllowsAddress = (address: string) => boolean

/**
 * Parses address ranges: "203.0.113.0/24", "2001:db8::/32", or single addresses.
 *
 * @returns the ranges in canonical form, `<address>/<bits>`, without duplicates
 * @throws Fault validation_failed naming each invalid range
 */
export function readAllowedCidrs(texts: readonly string[]): readonly string[] {
  const faults: FieldFault[] = []
  const cidrs = texts.map((text, index) => {
    const cidr = readCidr(text.trim())
    if (cidr !== undefined) return cidr
    const message = 'must be an address or a range such as 203.0.113.0/24 or 2001:db8::/32'
    faults.push({ field: `allowedCidrs[${index}]`, message })
    return ''
  })
  if (faults.length > 0) throw invalidFields(faults)
  return [...new Set(cidrs)]
}

function readCidr(text: string): string | undefined {
  const [, address = '', bits] = /^([0-9A-Fa-f.:]+)(?:\/(\d{1,3}))?$/.exec(text) ?? []
  const version = isIP(address)
  const bitsMax = version === 4 ? 32 : 128
  if (version === 0 || Number(bits ?? 0) > bitsMax) return undefined
  return `${address.toLowerCase()}/${Number(bits ?? bitsMax)}`
}

/**
 * Creates the check of a key's address ranges. An IPv4 address equals its IPv6 form
 * (::ffff:203.0.113.7), in ranges and addresses alike.
 *
 * @param cidrs as `readAllowedCidrs` returns them; empty: any address
 */
export function createAllowsAddress(cidrs: readonly string[]): AllowsAddress {
  return cidrs.length === 0 ? () => true : isWithin(cidrs)
}

/** The default burst: two seconds of the sustained rate. */
const BURST_SECONDS = 2

/** Returns the rate limit of a business; undefined: the default. */
function toRateLimit(perSecond: number | null, burst: number | null): RateLimit | undefined {
  if (perSecond === null) return undefined
  return { perSecond, burst: burst ?? BURST_SECONDS * perSecond }
}

/** The columns of the limit; null: the default. */
interface OwnRateLimit {
  readonly rateLimitPerSecond: number | null
  readonly rateLimitBurst: number | null
}

/**
 * Applies a change to the rate limit of a business.
 *
 * @param change undefined: unchanged; 0: the default
 * @throws Fault validation_failed
 */
export function changeRateLimit(
  own: { readonly [name in keyof OwnRateLimit]?: number | null | undefined },
  change: { readonly [name in keyof OwnRateLimit]: number | undefined },
): OwnRateLimit {
  const perSecond = change.rateLimitPerSecond ?? own.rateLimitPerSecond ?? 0
  const currentBurst = change.rateLimitPerSecond === 0 ? 0 : (own.rateLimitBurst ?? 0)
  const burst = change.rateLimitBurst ?? currentBurst
  if (burst > FULL_SECONDS_MAX * perSecond) {
    const burstMax = FULL_SECONDS_MAX * perSecond
    const message =
      perSecond === 0
        ? 'requires rateLimitPerSecond'
        : `must be at most ${burstMax}, 60 seconds of rateLimitPerSecond`
    throw invalidFields([{ field: 'rateLimitBurst', message }])
  }
  return { rateLimitPerSecond: perSecond || null, rateLimitBurst: burst || null }
}

/** The interval between two writes of key uses. */
const INTERVAL_MS = 30_000

/** The most keys that wait for the next write; uses of further keys are dropped. */
const KEYS_MAX = 20_000

export type KeyUses = ReturnType<typeof createKeyUses>

/**
 * Records when keys were last used, so that their owners see which keys are in use. Uses are collected in memory and
 * written in the background, all in one statement.
 */
export function createKeyUses(
  { database: { relaxedPool }, log }: Runtime,
  { everyMs = INTERVAL_MS }: { readonly everyMs?: number } = {},
) {
  let pending = new Map<string, number>()
  const record = (keyId: string, atMs: number): void => {
    const known = pending.get(keyId)
    if (known === undefined ? pending.size < KEYS_MAX : known < atMs) pending.set(keyId, atMs)
  }
  const write = async (): Promise<void> => {
    const uses = pending
    if (uses.size === 0) return
    pending = new Map()
    let left: ReadonlyMap<string, number> = uses
    try {
      left = await writeKeyUses(relaxedPool, uses)
    } finally {
      for (const [keyId, atMs] of left) record(keyId, atMs)
    }
  }
  /** Writes the pending uses. Retries while another stopping instance writes the same keys. */
  const writeAll = async (): Promise<void> => {
    for (let tries = 0; tries < 10; tries++) {
      await write()
      if (pending.size === 0) return
      await setTimeout(50)
    }
    throw new Error('Other transactions lock the keys')
  }
  const loop = createLoop({
    name: 'key uses',
    log,
    everyMs,
    turn: async () => void (await write()),
  })
  return {
    /** Records a use. Cheap, and does not wait. @param atMs epoch milliseconds */
    record,
    start: () => loop.start(),
    /** Stops the loop and writes the pending uses. */
    async stop(): Promise<void> {
      await loop.stop()
      await writeAll().catch((error: unknown) => {
        log.warn({ err: error, keys: pending.size }, 'could not write when keys were last used')
      })
    },
  }
}

/**
 * Writes when keys were last used. Several instances write the same keys, and must wait neither for each other nor for an
 * operator's transaction, so keys whose rows are locked are left out.
 *
 * @param uses epoch milliseconds by key id
 * @returns the uses of keys that were left out
 */
async function writeKeyUses(
  pool: Pool,
  uses: ReadonlyMap<string, number>,
): Promise<ReadonlyMap<string, number>> {
  const { rows } = await pool.query<{ id: string }>({
    name: 'api-key-uses-write',
    text: `with later as (
        select k.id, u.at from api_key k
          join unnest($1::text[], $2::timestamptz[]) as u(id, at) using (id)
        where k.last_used_at is null or k.last_used_at < u.at
      ), free as (
        select k.id, l.at from api_key k join later l using (id)
        where k.last_used_at is null or k.last_used_at < l.at
        for no key update of k skip locked
      ), written as (
        update api_key k set last_used_at = f.at from free f where k.id = f.id
      )
      select id from later where id not in (select id from free)`,
    values: [textArray([...uses.keys()]), timestampArray([...uses.values()])],
  })
  const left = new Set(rows.map(({ id }) => id))
  return new Map([...uses].filter(([keyId]) => left.has(keyId)))
}

/** Reads the hashes of valid keys: see CredentialHashes. */
export function createKeyHashes(pool: Pool): CredentialHashes {
  const valid = 'revoked_at is null and (expires_at is null or expires_at > now())'
  const read = async (where: string, order: string, values: unknown[]) => {
    const { rows } = await pool.query<{ hash: string }>(
      `select encode(secret_hash, 'base64') as hash from api_key
        where ${valid} and ${where} order by ${order} desc limit $1`,
      values,
    )
    return rows.map(({ hash }) => hash)
  }
  return {
    latest: (limit) => read('true', 'coalesce(last_used_at, created_at)', [limit]),
    // Ids begin with the time of issue, so this reads the end of the primary key.
    issuedSince: (sinceMs, limit) => read('id > $2', 'id', [limit, firstIdAt('key', sinceMs)]),
  }
}
