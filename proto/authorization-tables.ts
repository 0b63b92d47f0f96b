import type { DescMethod, DescService } from '@bufbuild/protobuf'
import { KEY_SCOPES, type KeyScope, SCOPES, type Scope } from '../src/auth/caller.ts'
import { type MethodPolicy, readPolicy, type TenantScope } from '../src/auth/method-policy.ts'
import { restPath } from '../src/protobuf/contract-services.ts'

type KeyPolicy = Extract<MethodPolicy, { credential: 'secret key' }>

const BEGIN = '<!-- Made from the contract by `npm run generate`: do not edit. -->'
const END = '<!-- The end of what is made from the contract. -->'

/**
 * Replaces the part of a document between the two markers by the tables of the services.
 *
 * @throws Error when the document has no markers
 */
export function replaceTables(document: string, services: readonly DescService[]): string {
  const [begin, end] = [document.indexOf(BEGIN), document.indexOf(END)]
  if (begin < 0 || end < begin) throw new Error('the document has no place for the tables')
  const tables = authorizationTables(services).join('\n')
  return `${document.slice(0, begin)}${BEGIN}\n\n${tables}\n${document.slice(end)}`
}

/** Returns what each scope of a token and of a key allows, and then the policy of each method, as lines of Markdown. */
function authorizationTables(services: readonly DescService[]): string[] {
  const methods = services.flatMap((service) => service.methods)
  return [
    '| scope | every token with it may call | only a token without a restriction may call |',
    '|---|---|---|',
    ...SCOPES.map((scope) => scopeRow(scope, methods)),
    '',
    '| scope of a key | every key with it may call |',
    '|---|---|',
    ...KEY_SCOPES.map((scope) => keyScopeRow(scope, methods)),
    keyRow('no scopes', methods, ({ openToUnscopedKeys }) => openToUnscopedKeys),
    '',
    ...services.flatMap(serviceSection),
  ]
}

function scopeRow(scope: Scope, methods: readonly DescMethod[]): string {
  const allowed = methods.filter((method) => scopesOf(method).includes(scope))
  // The other scopes state what `admin` allows besides.
  const listed =
    scope === 'admin' ? allowed.filter((method) => scopesOf(method).length === 1) : allowed
  const prefix = scope === 'admin' ? 'all that the other scopes allow, and ' : ''
  const closed = listed.filter((method) => tenantScopeOf(method)?.by === 'unrestricted')
  const open = listed.filter((method) => !closed.includes(method))
  return row([`\`${scope}\``, `${prefix}${namesOf(open)}`, `${prefix}${namesOf(closed)}`])
}

function keyScopeRow(scope: KeyScope, methods: readonly DescMethod[]): string {
  return keyRow(`\`${scope}\``, methods, ({ scopes }) => scopes.includes(scope))
}

function keyRow(
  title: string,
  methods: readonly DescMethod[],
  isOpen: (policy: KeyPolicy) => boolean,
): string {
  const open = methods.filter((method) => {
    const policy = keyPolicyOf(method)
    return policy !== undefined && isOpen(policy)
  })
  return row([title, open.map((method) => method.name).join(', ') || '–'])
}

/** `AccountService` GetAccount, ListAccounts; `EventService` Subscribe */
function namesOf(methods: readonly DescMethod[]): string {
  const byService = Map.groupBy(methods, (method) => method.parent.name)
  const parts = [...byService].map(
    ([service, own]) => `\`${service}\` ${own.map((method) => method.name).join(', ')}`,
  )
  return parts.join('; ') || '–'
}

function serviceSection(service: DescService): string[] {
  const credentials = new Set(service.methods.map((method) => readPolicy(method).credential))
  const restricted = service.methods.some((method) => tenantScopeOf(method) !== undefined)
  const paths = service.methods.some((method) => restPath(method) !== undefined)
  const protocols = ['gRPC', 'Connect', 'gRPC-Web', ...(paths ? ['REST'] : [])].join(', ')
  const columns = [
    { title: 'rpc', of: (method: DescMethod) => method.name },
    ...(credentials.has('secret key')
      ? [
          { title: 'any of the scopes', of: (method: DescMethod) => keyScopeText(method) },
          { title: 'a key without scopes', of: (method: DescMethod) => unscopedText(method) },
        ]
      : []),
    ...(restricted
      ? [
          { title: 'any of the scopes', of: (method: DescMethod) => scopeText(method) },
          { title: 'a restricted token', of: (method: DescMethod) => restrictionText(method) },
        ]
      : []),
    ...(paths
      ? [{ title: 'REST path', of: (method: DescMethod) => pathText(restPath(method)) }]
      : []),
  ]
  return [
    `### ${service.typeName}`,
    '',
    `Needs a ${[...credentials].join(' or a ')}. Served over ${protocols}.`,
    '',
    row(columns.map(({ title }) => title)),
    `|${columns.map(() => '---|').join('')}`,
    ...service.methods.map((method) => row(columns.map(({ of }) => of(method)))),
    '',
  ]
}

const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`

const pathText = (path: string | undefined) => (path === undefined ? '–' : `\`POST ${path}/\``)

const scopeText = (method: DescMethod) =>
  scopesOf(method)
    .map((scope) => `\`${scope}\``)
    .join(', ')

const keyScopeText = (method: DescMethod) =>
  (keyPolicyOf(method)?.scopes ?? []).map((scope) => `\`${scope}\``).join(', ')

const unscopedText = (method: DescMethod) =>
  keyPolicyOf(method)?.openToUnscopedKeys ? 'may call it' : 'is refused'

function keyPolicyOf(method: DescMethod): KeyPolicy | undefined {
  const policy = readPolicy(method)
  return policy.credential === 'secret key' ? policy : undefined
}

/** The scopes that allow a method, in the order of SCOPES; none: it takes no token. */
function scopesOf(method: DescMethod): readonly Scope[] {
  const policy = readPolicy(method)
  if (policy.credential !== 'token') return []
  return SCOPES.filter((scope) => scope === 'admin' || policy.scopes.includes(scope))
}

function tenantScopeOf(method: DescMethod): TenantScope | undefined {
  const policy = readPolicy(method)
  return policy.credential === 'token' ? policy.tenantScope : undefined
}

/** What a token that is restricted to businesses may ask a method for. */
function restrictionText(method: DescMethod): string {
  const policy = readPolicy(method)
  const fields = policy.credential === 'token' ? policy.unrestrictedFields : []
  const refused = fields.map(({ name }) => `; may not set \`${name}\``)
  return `${tenantText(method)}${refused.join('')}`
}

function tenantText(method: DescMethod): string {
  const scope = tenantScopeOf(method)
  const field = (localName: string) =>
    `\`${method.input.fields.find((each) => each.localName === localName)?.name}\``
  switch (scope?.by) {
    case undefined:
      return '–'
    case 'unrestricted':
      return 'is refused'
    case 'business':
      return `names one of its businesses in ${field(scope.field)}`
    case 'businesses':
      return `lists only its businesses in ${field(scope.field)}; an empty list stands for all of them`
    case 'filtered':
      if (scope.field === undefined) return 'is shown only its businesses'
      return `may name one of its businesses in ${field(scope.field)}; without, is shown only theirs`
    case 'owned': {
      const fields = Object.keys(scope.fields).map(field).join(', ')
      return `names what its businesses own in ${fields}; everything else is unknown to it`
    }
  }
}
