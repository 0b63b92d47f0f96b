// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the texts are source code
import { inFile } from './mutation.ts'

const MIGRATION = 'src/postgres/migrations/Migration20261122000000_initial.ts'

const cache = inFile('src/auth/credential-cache.ts', 'test/auth/credential-cache.test.ts')
const token = inFile('src/auth/tokens/authenticate-token.ts', 'test/auth/tokens.test.ts')
const tokenStore = inFile('src/auth/tokens/store.ts', 'test/auth/tokens.test.ts')
const policy = inFile('src/auth/method-policy.ts', 'test/auth/method-policy.test.ts')
const audit = inFile(MIGRATION, 'test/auth/audit.test.ts')
const auditList = inFile(
  'src/auth/audit/list-audit-entries.ts',
  'test/auth/audit.test.ts',
  'test/protocols/matrix/tenant-scope.test.ts',
)
const exchange = inFile(
  'src/auth/rate-limits/exchange.ts',
  'test/auth/rate-limits/rate-limits.test.ts',
  'test/auth/rate-limits/share-buckets.test.ts',
)
const share = inFile(
  'src/auth/rate-limits/share-buckets.ts',
  'test/auth/rate-limits/share-buckets.test.ts',
)
const shared = inFile(
  'src/auth/rate-limits/shared-bucket.ts',
  'test/auth/rate-limits/rate-limits.test.ts',
)
const bucket = inFile(
  'src/auth/rate-limits/token-bucket.ts',
  'test/auth/rate-limits/token-bucket.test.ts',
)
const key = inFile(
  'src/businesses/authenticate-key.ts',
  'test/businesses/keys.test.ts',
  'test/businesses/key-addresses.test.ts',
)
const keys = inFile(
  'src/businesses/keys.ts',
  'test/businesses/keys.test.ts',
  'test/businesses/rotate-key.test.ts',
)
const rotate = inFile(
  'src/businesses/rotate-key.ts',
  'test/businesses/rotate-key.test.ts',
  'test/businesses/key-scopes.test.ts',
)
const cipher = inFile('src/crypto/encryption.ts', 'test/crypto/encryption.test.ts')
const tenant = inFile(
  'src/server/interceptors/tenant-scope.ts',
  'test/protocols/matrix/tenant-scope.test.ts',
)
const ofKeys = inFile('src/server/interceptors/tenant-scope.ts', 'test/thirdparty/webhooks.test.ts')
const scopes = inFile(
  'src/server/interceptors/authentication.ts',
  'test/businesses/key-scopes.test.ts',
)
const update = inFile(
  'src/accounts/update-account.ts',
  'test/thirdparty/accounts.test.ts',
  'test/thirdparty/splits.test.ts',
)
const owner = inFile('src/webhooks/owners.ts', 'test/protocols/matrix/tenant-scope.test.ts')
const account = inFile(
  'src/accounts/openings/opening-store.ts',
  'test/accounts/claims.test.ts',
  'test/accounts/openings.test.ts',
  'test/accounts/live-openings.test.ts',
)
const look = inFile('src/accounts/store.ts', 'test/accounts/get-account.test.ts')

export const ACCESS = [
  cache(
    'a revoked credential stays valid for a second',
    'const CACHED_MS = 800',
    'const CACHED_MS = 2_000',
  ),
  cache(
    'an expired credential stays valid while it is cached',
    ' && startedMs < cached.untilMs) return',
    ') return',
  ),
  cache('an expired credential is found', 'if (untilMs <= startedMs) return undefined\n', ''),
  cache('a credential is cached from the end of its look-up', ', { start: startedMs })', ')'),
  token(
    'a token with another secret is accepted',
    ' || !timingSafeEqual(digest, row.secretHash)) return undefined',
    ') return undefined',
  ),
  token(
    'a revoked token is accepted',
    'if (row === undefined || row.revoked || ',
    'if (row === undefined || ',
  ),
  token(
    'a token without a restriction gets none',
    'businessIds: row.businessIds ? new Set(row.businessIds) : undefined',
    'businessIds: undefined',
  ),
  token(
    'any token is the admin',
    'if (expected !== undefined && timingSafeEqual(digest, expected)) {',
    'if (expected !== undefined) {',
  ),
  token(
    'a token never expires',
    'expiresAtMs: row.expiresAtMs ?? undefined }',
    'expiresAtMs: undefined }',
  ),
  tokenStore(
    'a revoked token is read as valid',
    'revoked_at is not null as revoked',
    'false as revoked',
  ),
  policy(
    'a method without a tenant scope is served',
    'throw new Error(`the policy of ${method.parent.typeName}.${method.name} has no tenant scope`)',
    "return { by: 'filtered' }",
  ),
  policy(
    'a method without scopes is served',
    'if (scopes.length === 0 || found.length < scopes.length) {',
    'if (found.length < scopes.length) {',
  ),
  audit(
    'the audit log can lose its last entry',
    'create trigger audit_entry_append_only before DELETE OR UPDATE OR TRUNCATE on audit_entry',
    'create trigger audit_entry_append_only before UPDATE OR TRUNCATE on audit_entry',
  ),
  audit(
    'an entry of the audit log is not chained to the one before',
    'new.previous_hash := head.hash;',
    "new.previous_hash := decode(repeat('00', 32), 'hex');",
  ),
  audit(
    'the hash of an audit entry does not cover the actor',
    ' || audit_text(entry.actor_id)',
    '',
  ),
  audit(
    'the head of the audit log can be moved back',
    'if new.number is distinct from old.number + 1 then',
    'if false then',
  ),
  auditList(
    'a restricted token lists the audit entries of all businesses',
    "add('business_id = any($)', allowed)",
    "add('$::text[] is not null', allowed)",
  ),
  exchange(
    'what was spent while the database was unavailable is forgotten',
    '        bucket.restore(spent[index] ?? 0)\n        add(bucket)',
    '        add(bucket)',
  ),
  exchange(
    'a failed exchange waits for the next spending',
    '        bucket.restore(spent[index] ?? 0)\n        add(bucket)',
    '        bucket.restore(spent[index] ?? 0)',
  ),
  exchange(
    'the level that another instance left is not adopted',
    'if (level !== undefined) bucket.applyLevel(level, nowMs)',
    '',
  ),
  share(
    'what another instance spent is not charged',
    '          - (excluded.burst - excluded.tokens)),',
    '          ),',
  ),
  share(
    'a shared bucket refills beyond its burst',
    'least(excluded.burst, b.tokens + excluded.per_second',
    'least(1000 * excluded.burst, b.tokens + excluded.per_second',
  ),
  share(
    'a debt of a shared bucket has no bound',
    'tokens = greatest(-excluded.burst,',
    'tokens = greatest(-1000 * excluded.burst,',
  ),
  shared(
    'what is spent after a failed exchange replaces what was spent before',
    'Math.min(this.#unshared + spent, this.limit.burst)',
    'spent',
  ),
  bucket(
    'an empty bucket admits a request',
    'return this.#tokens >= 1',
    'return this.#tokens >= 0',
  ),
  key('a revoked key is accepted', ' || key.revoked) return undefined', ') return undefined'),
  key('a key with another secret is accepted', ' || !matchesHash(secret, key.secretHash)', ''),
  key(
    'a key is accepted from any address',
    'if (!known.allows(address)) {',
    "if (!known.allows(address) && address === '') {",
  ),
  keys(
    'a revoked key is rotated',
    "if (key.revokedAt) throw new Fault('key_inactive', 'The key was revoked')\n",
    '',
  ),
  keys(
    'a business lists the keys of another',
    'const where = { business: businessId, ...',
    'const where = { ...',
  ),
  rotate(
    'a rotated key lives longer than before',
    'Math.min(replaced.expiresAt?.getTime() ?? endMs, endMs)',
    'endMs',
  ),
  rotate(
    'a key that replaces a test key is live',
    'const { business, live, allowedCidrs, scopes } = replaced',
    'const { business, allowedCidrs, scopes } = replaced\n    const live = true',
  ),
  rotate(
    'a key that replaces another loses its addresses',
    'const requested = { businessId: business, live, allowedCidrs, scopes, expiresAt }',
    'const requested = { businessId: business, live, allowedCidrs: [], scopes, expiresAt }',
  ),
  rotate(
    'a key that replaces another may do more',
    'const requested = { businessId: business, live, allowedCidrs, scopes, expiresAt }',
    'const requested = { businessId: business, live, allowedCidrs, scopes: [], expiresAt }',
  ),
  cipher(
    'a text is encrypted without its context',
    'nonce, TAG).setAAD(Buffer.from(context))',
    'nonce, TAG)',
  ),
  cipher(
    'equal texts have equal ciphertexts',
    'const nonce = randomBytes(NONCE_BYTES)',
    'const nonce = Buffer.alloc(NONCE_BYTES)',
  ),
  cipher(
    'fingerprints are the same under every key',
    "createHmac('sha256', hashing).update(text)",
    "createHmac('sha256', 'key').update(text)",
  ),
  tenant(
    'a restricted token names the resource of another business',
    'const isOwn = ({ businessId }: Owner) => allowed.has(businessId)',
    'const isOwn = (_: Owner) => true',
  ),
  ofKeys(
    'a key names the resource of the other mode',
    'businessId === caller.businessId && live === caller.live',
    'businessId === caller.businessId || live === undefined',
  ),
  ofKeys(
    'a key names the resource of another business',
    'businessId === caller.businessId && live === caller.live',
    'businessId !== undefined && live === caller.live',
  ),
  scopes(
    'a key without scopes may call every method',
    'held.size === 0 ? openToUnscopedKeys :',
    'held.size === 0 ? openToUnscopedKeys !== undefined :',
  ),
  scopes(
    'a key with scopes may call what a key without them may',
    'held.size === 0 ? openToUnscopedKeys :',
    'openToUnscopedKeys ? true :',
  ),
  update(
    'a creation is compared with details that have been changed',
    '    account.detailsHash = encrypter.fingerprint(detailsText(compared))\n',
    '',
  ),
  update(
    'changed details of an account lose the split that it was opened with',
    'const split = splits.get(stored.id)',
    'const split = undefined',
  ),
  tenant(
    'a restricted token names another business',
    'if (named.every((id) =>',
    'if (named.some(() => true) || named.every((id) =>',
  ),
  tenant(
    'a restricted token subscribes to all businesses',
    'fields[scope.field] = [...allowed]\n',
    '',
  ),
  owner('a delivery belongs to no business', "where('d.id', '=', id)", "where('e.id', '=', id)"),
  account(
    'two calls open an account at once',
    "and status = 'PENDING' and claimed_until <= $2\n",
    "and status = 'PENDING' and $2::timestamptz is not null\n",
  ),
  account(
    'an account in manual review is opened again',
    "          and opening_state <> 'MANUAL_REVIEW'\n",
    '',
  ),
  account(
    'an attempt that was overtaken deletes the account',
    "{ id, attempts: attempt, status: 'PENDING' })",
    "{ id, status: 'PENDING' })",
  ),
  look(
    'a business finds the account of another by its reference',
    '(reference = $2 and business_id = $1 and live',
    '(reference = $2 and live',
  ),
]
