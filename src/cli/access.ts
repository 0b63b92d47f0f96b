import { type Command, InvalidArgumentError } from 'commander'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import {
  type Business,
  BusinessSchema,
  KeySchema,
} from '../../gen/inflow/business/v1/business_pb.ts'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { KEY_SCOPES, SCOPES } from '../auth/caller.ts'
import { columnsOf } from './columns.ts'
import { YES } from './confirm.ts'
import { localTime } from './options.ts'
import { readSecretArgument } from './read-secret.ts'
import { BUSINESS, MODE, PAGE, rpc } from './rpc-verb.ts'
import { addVerbs } from './verb.ts'

const BUSINESSES = 'id, name, alias, createdAt'
const CHANGED_BUSINESS = columnsOf(BusinessSchema, `${BUSINESSES}, Rate limit`, {
  'Rate limit': rateLimitText,
})

const BUSINESS_HELP = `
  create: create a business and its first secret key, which is shown only once
  --name <name>!  name, 1 to 100 characters
  --alias <alias>  prefix of account names (default: the name, shortened)
  Example: business create --name "Acme Stores" --alias Acme

  update: change a business; open accounts keep their names
  <business-id>  id of the business, see \`inflow business list\`
  --name <name>  name, 1 to 100 characters
  --alias <alias>  prefix of account names, 1 to 40 characters without /
  --rate-limit <limit>  requests per second and burst of each key, such as 500/1000 or 500, or "default"
  Example: business update biz_01jd9w3k6t8v2x4z6b8d0f2h4j --alias Acme

  list: list businesses, newest first
  --query <text>  only businesses whose name or alias begins with this text, or that have this id
  ${PAGE}
  Example: business list --limit 20`

export function business(noun: Command): void {
  addVerbs(noun, BUSINESS_HELP, {
    create: rpc(BusinessService.method.createBusiness, {
      shows: BUSINESSES,
      also: 'secretKey',
      notes: () => KEY_SHOWN_ONCE,
    }),
    update: rpc(BusinessService.method.updateBusiness, {
      flags: { rateLimit: { read: rateLimit } },
      request: (options: { rateLimit?: ReturnType<typeof rateLimit> }) => ({
        ...options.rateLimit,
      }),
      shows: CHANGED_BUSINESS,
    }),
    list: rpc(BusinessService.method.listBusinesses, { shows: BUSINESSES }),
  })
}

function rateLimitText({ rateLimitPerSecond, rateLimitBurst }: Business): string {
  if (rateLimitPerSecond === 0) return ''
  return rateLimitBurst === 0 ? `${rateLimitPerSecond}` : `${rateLimitPerSecond}/${rateLimitBurst}`
}

/** Parses a rate limit. Without a burst, the burst is reset to its default. */
function rateLimit(text: string) {
  const [, perSecond, burst = '0'] = /^(\d{1,7})(?:\/(\d{1,8}))?$/.exec(text) ?? []
  if (text === 'default') return { rateLimitPerSecond: 0, rateLimitBurst: 0 }
  if (perSecond === undefined) {
    throw new InvalidArgumentError('Must be like 500/1000 or 500, or "default".')
  }
  return { rateLimitPerSecond: Number(perSecond), rateLimitBurst: Number(burst) }
}

const KEYS = columnsOf(
  KeySchema,
  'id, prefix, live, createdAt, lastUsedAt, expiresAt, revokedAt, scopes, Allowed from',
  { 'Allowed from': ({ allowedCidrs }) => allowedCidrs.join(',') || 'anywhere' },
)
const KEY_SHOWN_ONCE = 'The secret key is shown only once: store it now.'
const KEY_ID = '<key-id>  id of the key, see `inflow key list`'
const KEY_EXAMPLE = 'key_01jd9w3k6t8v2x4z6b8d0f2h4j'
const ALLOW = '--allow <ranges...>  allow the key from these addresses only, such as 203.0.113.0/24'

/** The flags of `issue` and `import`. */
const KEY_FLAGS = { allow: 'allowedCidrs', scope: { choices: KEY_SCOPES } }
const KEY_OPTIONS = `${BUSINESS}
  --test  a test mode key: its accounts are simulated, and it sees nothing of live mode
  ${ALLOW} (default: anywhere)
  --scope <scopes...>  what the key may be used for (default: open accounts, read payments, events and balances)
  --expires-at <time>  expiry of the key (default: never)`

const KEY_HELP = `
  issue: issue another secret key, which is shown only once
  ${KEY_OPTIONS}
  Example: key issue --test --allow 203.0.113.0/24 --expires-at 2027-01-01T00:00:00Z

  import: import the key that a business has of another provider; only its hash is stored
  ${KEY_OPTIONS}
  --secret-key-file <path>!  file of the key, or - for standard input
  Example: key import --business biz_01jd9w3k6t8v2x4z6b8d0f2h4j --secret-key-file old-key.txt

  update: change the addresses that a key is allowed from; takes effect within a second
  ${KEY_ID}
  ${ALLOW}
  --any-address  allow the key from any address
  Example: key update ${KEY_EXAMPLE} --allow 203.0.113.0/24 2001:db8::/32

  rotate: replace a key with a new one, which is shown only once; both are valid for the overlap
  ${KEY_ID}
  --overlap <time>  how long the old key stays valid, such as 48h, 30m or 0, at most 30d (default: 24h)
  --expires-at <time>  expiry of the new key (default: never)
  --yes  do not ask before an overlap of 0
  Example: key rotate ${KEY_EXAMPLE} --overlap 48h

  revoke: revoke a key; safe to repeat
  ${KEY_ID}
  ${YES}
  Example: key revoke ${KEY_EXAMPLE}

  list: list the keys of a business, newest first
  ${BUSINESS}
  ${PAGE}
  Example: key list --limit 20

  requests: list the requests of a business with its keys, of the last seven days and newest first; --json prints every field
  ${BUSINESS}
  --all  of all businesses
  --key <id>  only requests with this key
  --status-class <digit>  only requests whose response had a status of this class: 2, 4 or 5
  --path <text>  only requests whose path has this part
  --request <id>  only the request with this id, as the response stated it
  --from <time>  only requests at this time or later
  --to <time>  only requests before this time
  ${MODE}
  ${PAGE}
  Example: key requests --status-class 4 --path getTransaction`

export function key(noun: Command): void {
  addVerbs(noun, KEY_HELP, {
    issue: rpc(BusinessService.method.issueKey, {
      flags: KEY_FLAGS,
      shows: KEYS,
      also: 'secretKey',
      notes: () => KEY_SHOWN_ONCE,
    }),
    import: rpc(BusinessService.method.importKey, {
      flags: KEY_FLAGS,
      request: async ({ secretKeyFile }: { secretKeyFile: string }) => ({
        secretKey: await readSecretArgument(secretKeyFile, '--secret-key-file', 'Secret key'),
      }),
      shows: KEYS,
    }),
    update: rpc(BusinessService.method.updateKey, {
      flags: { allow: { field: 'allowedCidrs', conflicts: 'anyAddress' } },
      shows: KEYS,
    }),
    rotate: rpc(BusinessService.method.rotateKey, {
      confirms: ({ overlap }) =>
        overlap?.seconds === 0n
          ? 'Calls with it are refused at once: only the new key is valid.'
          : undefined,
      shows: KEYS,
      also: 'secretKey',
      notes: ({ replaced }, { keyId }) => [
        `${keyId} is valid until ${localTime.format(replaced?.expiresAt)}.`,
        KEY_SHOWN_ONCE,
      ],
    }),
    revoke: rpc(BusinessService.method.revokeKey, {
      confirms: 'Calls with it are refused within a second, for good.',
      shows: KEYS,
    }),
    list: rpc(BusinessService.method.listKeys, { shows: KEYS }),
    requests: rpc(BusinessService.method.listApiRequests, {
      flags: { all: { conflicts: 'business' }, statusClass: { read: Number } },
      shows: 'receivedAt=Time, status, durationMs=ms, method, path, live, keyId, requestId, error',
    }),
  })
}

const TOKENS =
  'id, name, prefix, scopes, businessIds=Businesses, createdAt, expiresAt, revokedAt, lastUsedAt'
const TOKEN = `${TOKENS}, description`

const TOKEN_HELP = `
  issue: issue a token for an internal service or an operator; it is shown only once
  --name <name>!  name of the service or operator that uses the token
  --scope <scopes...>!  scopes of the token
  --business <ids...>  restrict the token to these businesses (default: all)
  --description <text>  purpose of the token
  --expires-at <time>  expiry of the token (default: never)
  Example: token issue --name ledger --scope read events:subscribe \\
    --business biz_01jd9w3k6t8v2x4z6b8d0f2h4j --expires-at 2027-01-01T00:00:00Z

  revoke: revoke a token; safe to repeat
  <token-id>  id of the token, see \`inflow token list\`
  ${YES}
  Example: token revoke tok_01jd9w3k6t8v2x4z6b8d0f2h4j

  list: list tokens, newest first, including expired and revoked ones
  --active  only those that are neither revoked nor expired
  ${PAGE}
  Example: token list --active`

export function token(noun: Command): void {
  addVerbs(noun, TOKEN_HELP, {
    issue: rpc(AdminService.method.issueToken, {
      flags: { scope: { choices: SCOPES } },
      shows: TOKEN,
      also: 'secret=Token',
      notes: () => 'The token is shown only once: store it now.',
    }),
    revoke: rpc(AdminService.method.revokeToken, {
      confirms:
        'Calls with it are refused within a second, for good, and its sessions and streams end.',
      shows: TOKEN,
    }),
    list: rpc(AdminService.method.listTokens, { shows: TOKENS }),
  })
}
