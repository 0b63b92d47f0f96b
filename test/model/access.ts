import { HOUR_MS, MINUTE_MS } from '../../src/core/durations.ts'
/**
 * A model of credentials and their rights, as plain data and one function, `step`. Times are
 * milliseconds after the beginning of a story. Each instance has its own clock, which may be set back.
 */

export type Answer = string

/** A key, token, sign-in code, portal link or session. */
export interface Credential {
  readonly name: string
  readonly kind: 'key' | 'token' | 'code' | 'link' | 'session'
  /** The token or link of a code or session. */
  readonly parent: string
  readonly scopes: readonly string[]
  /** Undefined: not restricted. */
  readonly businesses: readonly string[] | undefined
  readonly live: boolean
  readonly createdMs: number
  cidrs: readonly string[]
  expiresMs: number
  revokedMs: number | undefined
  lastUsedMs: number | undefined
  /** Sessions that are alike. */
  readonly count: number
  readonly imported: string | undefined
}

export interface World {
  readonly nowMs: number[]
  /** Their titles. */
  readonly businesses: Map<string, string>
  readonly credentials: Map<string, Credential>
  /** The credentials that an instance has found, and may cache for a second. */
  readonly seen: Map<string, Seen>
  readonly audit: string[]
  /** The times of the written last uses. */
  readonly uses: string[]
}

interface Seen {
  readonly atMs: number
  readonly untilMs: number
  readonly credential: Credential
}

export const ADMIN = 'admin'
export const MODES = [true, false] as const
export const IDLE_MS = HOUR_MS
const SESSION_MS = 12 * HOUR_MS
const SESSIONS_MAX = 100
const CODE_MS = 15 * MINUTE_MS

/** Whether an address is in a range. */
const RANGES: Readonly<Record<string, readonly string[]>> = {
  '203.0.113.0/29': ['203.0.113.7'],
  '2001:db8::/32': ['2001:db8::7'],
}
export const ADDRESSES = ['203.0.113.7', '203.0.113.9', '2001:db8::7'] as const
export const CIDRS = Object.keys(RANGES)

/** A command by a credential or `admin`, at an instance. */
export type Command = Act & {
  readonly by: string
  readonly at: number
  readonly from?: string
  /** The name of what the command creates. */
  readonly name?: string
}

interface NewKey {
  readonly business: string
  readonly live: boolean
  readonly scopes: readonly string[]
  readonly cidrs: readonly string[]
  readonly expiresMs: number
}

type Act =
  | { kind: 'getCaller' | 'listBusinesses' | 'listEvents' | 'listHooks' }
  | { kind: 'getBusiness'; business: string }
  | { kind: 'updateBusiness'; business: string; title: string }
  | { kind: 'changeHook'; target: string }
  | ({ kind: 'issueKey' } & NewKey)
  | ({ kind: 'importKey'; text: string } & NewKey)
  | { kind: 'updateKey'; target: string; cidrs: readonly string[] }
  | { kind: 'rotateKey'; target: string; overlapMs: number; expiresMs: number }
  | { kind: 'revokeKey' | 'revokeToken' | 'revokeLink' | 'revokeSession'; target: string }
  | {
      kind: 'issueToken'
      scopes: readonly string[]
      businesses: readonly string[] | undefined
      expiresMs: number
    }
  | { kind: 'createCode' }
  | { kind: 'createLink'; business: string; scopes: readonly string[]; ttlMs: number }
  | { kind: 'listKeys'; business: string; pageSize: number }
  | { kind: 'listTokens'; active: boolean | undefined; pageSize: number }
  | { kind: 'listSessions'; active: boolean; pageSize: number }
  | { kind: 'listLinks'; business: string | undefined; active: boolean; pageSize: number }
  | { kind: 'listAudit'; filter: AuditFilter; pageSize: number }
  | { kind: 'signIn'; credential: string; replaces: string | undefined }
  | { kind: 'signOut'; session: string }
  | { kind: 'copySession'; session: string; count: number }
  | { kind: 'move'; toMs: number }

export interface AuditFilter {
  readonly business?: string
  readonly actor?: string
  readonly action?: string
  readonly target?: string
}

/** The credential and scope that a call needs, and how the call is confined to the businesses of its caller. */
const RULES: Readonly<Record<string, readonly [string, readonly string[], string]>> = {
  listEvents: ['key', ['events:read', ''], 'own'],
  listHooks: ['key', ['webhooks:read'], 'own'],
  changeHook: ['key', ['webhooks:write'], 'own'],
  getCaller: ['token', ['read', 'payments:write', 'events:subscribe'], 'own'],
  createCode: ['token', ['read', 'payments:write', 'events:subscribe'], 'own'],
  getBusiness: ['token', ['read'], 'business'],
  listBusinesses: ['token', ['read'], 'own'],
  listKeys: ['token', ['read'], 'business'],
  listTokens: ['token', ['read'], 'unrestricted'],
  listSessions: ['token', ['read'], 'unrestricted'],
  listLinks: ['token', ['read'], 'business'],
  listAudit: ['token', ['read'], 'business'],
  updateBusiness: ['token', [], 'business'],
  issueKey: ['token', [], 'business'],
  importKey: ['token', [], 'business'],
  updateKey: ['token', [], 'own'],
  rotateKey: ['token', [], 'own'],
  revokeKey: ['token', [], 'own'],
  issueToken: ['token', [], 'unrestricted'],
  revokeToken: ['token', [], 'unrestricted'],
  createLink: ['token', [], 'business'],
  revokeLink: ['token', [], 'own'],
  revokeSession: ['token', [], 'unrestricted'],
}

export function newWorld(instances: number): World {
  return {
    nowMs: Array.from({ length: instances }, () => 0),
    businesses: new Map(),
    credentials: new Map(),
    seen: new Map(),
    audit: [],
    uses: [],
  }
}

export interface Step {
  readonly world: World
  readonly answer: Answer
}

/** Returns the worlds after a command, with the results of the caller. An instance may or may not use its cache. */
export function step(world: World, command: Command): readonly Step[] {
  return [true, false].map((trusts) => {
    const next = structuredClone(world)
    return { world: next, answer: apply(next, command, trusts) }
  })
}

function apply(world: World, command: Command, trusts: boolean): Answer {
  switch (command.kind) {
    case 'move':
      world.nowMs[command.at] = command.toMs
      return 'done'
    case 'signIn':
      return signIn(world, command, trusts)
    case 'signOut':
      return signOut(world, command.session, command.at, trusts)
    case 'copySession':
      return copySession(world, command)
    default:
      return call(world, command, trusts)
  }
}

// The caller

interface Caller {
  readonly kind: string
  readonly id: string
  readonly scopes: readonly string[]
  readonly businesses: readonly string[] | undefined
  readonly live: boolean
}

type Call = Exclude<Command, { kind: 'move' | 'signIn' | 'signOut' | 'copySession' }>

function call(world: World, command: Call, trusts: boolean): Answer {
  const [credential, scopes, tenant] = RULES[command.kind] as (typeof RULES)[string]
  const caller = authenticate(world, command, credential, trusts)
  if (typeof caller === 'string') return caller
  const held = caller.scopes.length === 0 ? [''] : caller.scopes
  if (!held.includes('admin') && !held.some((scope) => scopes.includes(scope))) {
    return 'permission_denied'
  }
  const named = businessOf(command)
  const isRefused =
    (tenant === 'unrestricted' && caller.businesses !== undefined) ||
    (tenant === 'business' && named !== undefined && !sees(caller, named))
  return isRefused ? 'permission_denied' : seenBy(command.by, perform(world, command, caller))
}

/** Another caller than `admin` may see its own last use before it is written. */
export const seenBy = (by: string, answer: Answer): Answer =>
  by === ADMIN ? answer : answer.replaceAll(/ used \S+/g, '')

const businessOf = (command: Call) => {
  if (command.kind === 'listAudit') return command.filter.business
  return 'business' in command ? command.business : undefined
}

const sees = ({ businesses }: Pick<Caller, 'businesses'>, business: string) =>
  businesses === undefined || businesses.includes(business)

function authenticate(
  world: World,
  { by, at, from }: Command,
  kind: string,
  trusts: boolean,
): Caller | 'unauthorized' | 'address_not_allowed' {
  if (by === ADMIN) {
    const admin = { kind: 'bootstrap', id: '-', scopes: ['admin'], businesses: undefined }
    return kind === 'token' ? { ...admin, live: true } : 'unauthorized'
  }
  const known = world.credentials.get(by)
  const isKey = known?.kind === 'key'
  if (known === undefined || isKey !== (kind === 'key')) return 'unauthorized'
  const found = lookUp(world, known, at, trusts)
  if (found === undefined) return 'unauthorized'
  const isAllowed = found.cidrs.some((cidr) => RANGES[cidr]?.includes(from ?? ''))
  if (isKey && found.cidrs.length > 0 && !isAllowed) return 'address_not_allowed'
  const nowMs = world.nowMs[at] as number
  if (isKey) known.lastUsedMs = Math.max(known.lastUsedMs ?? nowMs, nowMs)
  if (known.kind === 'session') use(world, found, known, nowMs)
  const { scopes, businesses, live, parent } = found
  const id = known.kind === 'session' ? parent : by
  if (id === ADMIN) return { kind: 'bootstrap', id: '-', scopes, businesses, live }
  return { kind: isKey ? 'secret_key' : 'token', id, scopes, businesses, live }
}

/** The credential as an instance finds it; undefined: it is not valid. */
function lookUp(
  world: World,
  credential: Credential,
  at: number,
  trusts: boolean,
): Credential | undefined {
  const nowMs = world.nowMs[at] as number
  const key = `${at} ${credential.name}`
  const seen = world.seen.get(key)
  const isRecent = seen && seen.atMs <= nowMs && nowMs < Math.min(seen.atMs + 1_000, seen.untilMs)
  if (trusts && isRecent) return seen.credential
  if (!isValid(world, credential, nowMs)) return undefined
  const found = structuredClone(credential)
  world.seen.set(key, { atMs: nowMs, untilMs: endOf(credential), credential: found })
  if (credential.kind === 'token') use(world, found, credential, nowMs)
  return found
}

const endOf = ({ kind, expiresMs, lastUsedMs }: Credential) =>
  kind === 'session' ? Math.min(expiresMs, (lastUsedMs as number) + IDLE_MS) : expiresMs

function isValid(world: World, credential: Credential, nowMs: number): boolean {
  return !isRevoked(world, credential) && nowMs < endOf(credential)
}

/** A code or session is revoked with its token or link. */
function isRevoked(world: World, { revokedMs, parent }: Credential): boolean {
  return revokedMs !== undefined || world.credentials.get(parent)?.revokedMs !== undefined
}

/** The last use is written at most once a minute, and never moves back. */
function use(world: World, seen: Credential, credential: Credential, nowMs: number): void {
  if (nowMs - (seen.lastUsedMs ?? Number.NEGATIVE_INFINITY) < MINUTE_MS) return
  seen.lastUsedMs = nowMs
  if ((credential.lastUsedMs ?? Number.NEGATIVE_INFINITY) < nowMs) write(world, credential, nowMs)
}

function write(world: World, credential: Credential, nowMs: number): void {
  credential.lastUsedMs = nowMs
  world.uses.push(`${credential.name} ${nowMs}`)
}

// The effects of calls

const log = (
  world: World,
  { kind, id }: Pick<Caller, 'kind' | 'id'>,
  ...change: readonly [string, string, string?]
) => {
  const [action, target, business = '-'] = change
  world.audit.push(`${action} ${kind} ${id} ${target} ${business}`)
}

function perform(world: World, command: Call, caller: Caller): Answer {
  const nowMs = world.nowMs[command.at] as number
  switch (command.kind) {
    case 'listEvents':
      return 'done'
    case 'listHooks':
      return hookOf((caller.businesses as string[])[0] as string, caller.live)
    case 'changeHook': {
      const own = (caller.businesses as string[])[0] as string
      if (command.target !== hookOf(own, caller.live)) return 'not_found'
      log(world, caller, 'endpoint.update', command.target, own)
      return 'done'
    }
    case 'getCaller': {
      const { id, scopes, businesses = [] } = caller
      return `${id} ${scopes.toSorted()} of ${businesses.toSorted()}`
    }
    case 'getBusiness':
      return world.businesses.get(command.business) as string
    case 'listBusinesses': {
      const shown = [...world.businesses].filter(([name]) => sees(caller, name))
      return lines(shown.map(([name, title]) => `${name} ${title}`))
    }
    case 'updateBusiness':
      world.businesses.set(command.business, command.title)
      log(world, caller, 'business.update', command.business, command.business)
      return 'done'
    case 'issueKey':
      log(world, caller, 'key.issue', command.name as string, command.business)
      return show(world, addKey(world, command, command, nowMs), nowMs)
    case 'importKey':
      return importKey(world, command, caller, nowMs)
    case 'updateKey':
    case 'rotateKey':
      return changeKey(world, command, caller, nowMs)
    case 'issueToken': {
      const { name, scopes, businesses, expiresMs } = command
      log(world, caller, 'token.issue', name as string)
      const rights = { scopes, businesses, expiresMs }
      return show(world, add(world, 'token', name, rights, nowMs), nowMs)
    }
    case 'revokeKey':
    case 'revokeToken':
    case 'revokeLink':
    case 'revokeSession':
      return revoke(world, command, caller, nowMs)
    case 'createCode':
      return createCode(world, command, caller, nowMs)
    case 'createLink': {
      const { name, business, scopes, ttlMs } = command
      log(world, caller, 'portal_link.create', name as string, business)
      const rights = { scopes, businesses: [business], expiresMs: nowMs + ttlMs }
      return show(world, add(world, 'link', name, rights, nowMs), nowMs)
    }
    case 'listAudit':
      return listAudit(world, command.filter, caller)
    default:
      return list(world, command, caller, nowMs)
  }
}

export const hookOf = (business: string, live: boolean) => `${business}-${live ? 'live' : 'test'}`

function add(
  world: World,
  kind: Credential['kind'],
  name: string | undefined,
  rights: Pick<Credential, 'scopes' | 'businesses' | 'expiresMs'> & Partial<Credential>,
  createdMs: number,
): Credential {
  const none = { parent: '', live: true, cidrs: [], count: 1, imported: undefined }
  const unused = { revokedMs: undefined, lastUsedMs: undefined }
  const added = { ...none, ...unused, ...rights, kind, name: name as string, createdMs }
  world.credentials.set(added.name, added)
  return added
}

export function addKey(
  world: World,
  { name, text }: { readonly name?: string; readonly text?: string },
  { business, live, scopes, cidrs, expiresMs }: NewKey,
  nowMs: number,
): Credential {
  const rights = { businesses: [business], live, scopes, cidrs, expiresMs, imported: text }
  return add(world, 'key', name, rights, nowMs)
}

function importKey(
  world: World,
  command: Extract<Command, { kind: 'importKey' }>,
  caller: Caller,
  nowMs: number,
): Answer {
  const { text, business, live } = command
  const known = [...world.credentials.values()].find(({ imported }) => imported === text)
  if (known === undefined) {
    log(world, caller, 'key.import', command.name as string, business)
    return show(world, addKey(world, command, command, nowMs), nowMs)
  }
  const isSame = known.live === live && sees(known, business)
  return isSame && isValid(world, known, nowMs) ? show(world, known, nowMs) : 'duplicate_key'
}

function changeKey(
  world: World,
  command: Extract<Command, { kind: 'updateKey' | 'rotateKey' }>,
  caller: Caller,
  nowMs: number,
): Answer {
  const key = own(world, command.target, caller)
  if (key === undefined) return 'not_found'
  if (!isValid(world, key, nowMs)) return 'key_inactive'
  const business = (key.businesses as string[])[0] as string
  if (command.kind === 'updateKey') {
    key.cidrs = command.cidrs
    log(world, caller, 'key.update', key.name, business)
    return show(world, key, nowMs)
  }
  key.expiresMs = Math.min(key.expiresMs, nowMs + command.overlapMs)
  const { live, scopes, cidrs } = key
  const requested = { business, live, scopes, cidrs, expiresMs: command.expiresMs }
  log(world, caller, 'key.rotate', key.name, business)
  const added = addKey(world, { name: command.name as string }, requested, nowMs)
  return lines([show(world, added, nowMs), show(world, key, nowMs)])
}

/** A credential that a caller may change; those of other businesses are unknown. */
function own(world: World, name: string, caller: Caller): Credential | undefined {
  const found = world.credentials.get(name)
  if (found?.businesses === undefined || caller.businesses === undefined) return found
  return found.businesses.every((business) => sees(caller, business)) ? found : undefined
}

const REVOCATIONS = {
  revokeKey: 'key.revoke',
  revokeToken: 'token.revoke',
  revokeLink: 'portal_link.revoke',
  revokeSession: 'session.revoke',
} as const

/** Revoking again changes nothing. */
function revoke(
  world: World,
  { kind, target }: Extract<Command, { kind: keyof typeof REVOCATIONS }>,
  caller: Caller,
  nowMs: number,
): Answer {
  const found = own(world, target, caller)
  if (found === undefined) return 'not_found'
  if (found.revokedMs === undefined) {
    found.revokedMs = nowMs
    const business = kind === 'revokeToken' ? undefined : onlyBusinessOf(found)
    log(world, caller, REVOCATIONS[kind], target, business)
  }
  return show(world, found, nowMs)
}

const onlyBusinessOf = ({ businesses }: Pick<Credential, 'businesses'>) =>
  businesses?.length === 1 ? businesses[0] : undefined

/** Only for a token of one's own: a session would outlive itself. */
function createCode(world: World, { by, name }: Command, caller: Caller, nowMs: number): Answer {
  if (by !== ADMIN && world.credentials.get(by)?.kind !== 'token') return 'permission_denied'
  const { scopes, businesses } = caller
  const rights = { scopes, businesses, expiresMs: nowMs + CODE_MS, parent: by }
  log(world, caller, 'sign_in_code.create', name as string, onlyBusinessOf(caller))
  add(world, 'code', name, rights, nowMs)
  return 'done'
}

// Lists

const lines = (texts: readonly string[]) => texts.toSorted().join('\n')

function list(
  world: World,
  command: Extract<Command, { kind: 'listKeys' | 'listTokens' | 'listSessions' | 'listLinks' }>,
  caller: Caller,
  nowMs: number,
): Answer {
  const kind = { listKeys: 'key', listTokens: 'token', listSessions: 'session', listLinks: 'link' }[
    command.kind
  ]
  const business = 'business' in command ? command.business : undefined
  const wanted = 'active' in command ? command.active : undefined
  const shown = [...world.credentials.values()].filter((each) => {
    const isSeen = kind !== 'link' || sees(caller, onlyBusinessOf(each) as string)
    const isOf = business === undefined || each.businesses?.[0] === business
    const isActive = isValid(world, each, nowMs)
    const isWanted = kind === 'token' ? wanted === undefined || wanted === isActive : true
    return each.kind === kind && isSeen && isOf && isWanted && (wanted !== true || isActive)
  })
  return lines(shown.flatMap((each) => Array(each.count).fill(show(world, each, nowMs))))
}

/** The visible fields of a credential. The last use of a key is written later. */
export function show(world: World, credential: Credential, nowMs: number): string {
  const { name, kind, scopes, businesses = [], live, cidrs, createdMs, ...more } = credential
  const used = kind === 'key' ? '' : ` used ${more.lastUsedMs ?? '-'}`
  const active = kind === 'session' ? ` ${isValid(world, credential, nowMs)} of ${more.parent}` : ''
  const mode = kind === 'key' ? ` ${live} ${more.imported !== undefined} from ${cidrs}` : ''
  const expires = more.expiresMs === Number.POSITIVE_INFINITY ? '-' : more.expiresMs
  const times = `${createdMs} ${expires} ${more.revokedMs ?? '-'}`
  return `${name} ${scopes.toSorted()} of ${businesses.toSorted()} at ${times}${mode}${used}${active}`
}

function listAudit(world: World, filter: AuditFilter, caller: Caller): Answer {
  const shown = world.audit.filter((line) => {
    const [action, , actor, target, business] = line.split(' ') as [string, ...string[]]
    const isWanted =
      (filter.action ?? action) === action &&
      (filter.actor ?? actor) === actor &&
      (filter.target ?? target) === target &&
      (filter.business ?? business) === business
    return isWanted && (caller.businesses === undefined || sees(caller, business as string))
  })
  return shown.join('\n')
}

// Sessions

type Grant = Pick<Credential, 'scopes' | 'businesses' | 'expiresMs'> & { readonly parent: string }

function signIn(
  world: World,
  command: Extract<Command, { kind: 'signIn' }>,
  trusts: boolean,
): Answer {
  const grant = grantOf(world, command, trusts)
  if (grant === undefined) return 'unauthorized'
  const nowMs = world.nowMs[command.at] as number
  if (isFull(world, grant, nowMs)) return 'rate_limited'
  const used = world.credentials.get(command.credential)
  if (used?.kind === 'code') world.credentials.delete(used.name)
  if (used?.kind === 'link' && (used.lastUsedMs ?? Number.NEGATIVE_INFINITY) < nowMs) {
    write(world, used, nowMs)
  }
  open(world, command.name, grant, nowMs)
  if (command.replaces !== undefined) signOut(world, command.replaces, command.at, trusts)
  return 'done'
}

/** The rights that a token, code or link gives to a browser; undefined: it is not valid. */
function grantOf(
  world: World,
  { credential: name, at }: Extract<Command, { kind: 'signIn' }>,
  trusts: boolean,
): Grant | undefined {
  if (name === ADMIN) {
    const expiresMs = Number.POSITIVE_INFINITY
    return { parent: ADMIN, scopes: ['admin'], businesses: undefined, expiresMs }
  }
  const found = world.credentials.get(name)
  const nowMs = world.nowMs[at] as number
  if (found?.kind === 'token') {
    const seen = lookUp(world, found, at, trusts)
    return seen && { ...seen, parent: name }
  }
  if (found === undefined || !isValid(world, found, nowMs)) return undefined
  if (found.kind === 'link') return { ...found, parent: name }
  const token = world.credentials.get(found.parent)
  const expiresMs = token?.expiresMs ?? Number.POSITIVE_INFINITY
  return nowMs < expiresMs ? { ...found, expiresMs } : undefined
}

/** Of one caller, a hundred sessions may be in use. */
function isFull(world: World, { parent }: Grant, nowMs: number): boolean {
  const open = [...world.credentials.values()].filter((each) => {
    const isOf = each.kind === 'session' && each.parent === parent
    return isOf && each.revokedMs === undefined && nowMs < endOf(each)
  })
  return open.reduce((sum, { count }) => sum + count, 0) >= SESSIONS_MAX
}

function open(world: World, name: string | undefined, grant: Grant, nowMs: number): void {
  const { parent, scopes, businesses } = grant
  // An instance deletes what its own clock says is over.
  for (const { name: old, kind, createdMs } of world.credentials.values()) {
    if (kind === 'code' && createdMs < nowMs - CODE_MS) world.credentials.delete(old)
  }
  const expiresMs = Math.min(nowMs + SESSION_MS, grant.expiresMs)
  add(world, 'session', name, { parent, scopes, businesses, expiresMs, lastUsedMs: nowMs }, nowMs)
  log(world, actorOf(parent), 'session.sign_in', name as string, onlyBusinessOf(grant))
}

const actorOf = (parent: string) =>
  parent === ADMIN ? { kind: 'bootstrap', id: '-' } : { kind: 'token', id: parent }

function signOut(world: World, name: string, at: number, trusts: boolean): Answer {
  const session = world.credentials.get(name) as Credential
  if (lookUp(world, session, at, trusts) !== undefined && session.revokedMs === undefined) {
    session.revokedMs = world.nowMs[at] as number
    const actor = actorOf(session.parent)
    log(world, actor, 'session.sign_out', name, onlyBusinessOf(session))
  }
  world.seen.delete(`${at} ${name}`)
  return 'done'
}

function copySession(
  world: World,
  { session, count, name }: Extract<Command, { kind: 'copySession' }>,
): Answer {
  const original = world.credentials.get(session) as Credential
  world.credentials.set(name as string, { ...original, name: name as string, count })
  return 'done'
}
