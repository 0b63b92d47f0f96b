import { isDeepStrictEqual } from 'node:util'
import type { DescService } from '@bufbuild/protobuf'
import {
  durationFromMs,
  type Timestamp,
  timestampFromMs,
  timestampMs,
} from '@bufbuild/protobuf/wkt'
import { type Client, createClient } from '@connectrpc/connect'
import { createConnectTransport, createGrpcTransport } from '@connectrpc/connect-node'
import type { Pool } from 'pg'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import type { Token } from '../../gen/inflow/admin/v1/token_pb.ts'
import type { Key } from '../../gen/inflow/business/v1/business_pb.ts'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import type { PortalLink, Session } from '../../gen/inflow/session/v1/session_pb.ts'
import { SessionService } from '../../gen/inflow/session/v1/session_service_pb.ts'
import { ThirdPartyService } from '../../gen/inflow/thirdparty/v2/third_party_service_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { ADMIN_TOKEN } from '../support/service.ts'
import { ownPage } from '../support/sign-in.ts'
import { waitFor, waitUntil } from '../support/wait-for.ts'
import {
  ADMIN,
  type Answer,
  addKey,
  type Command,
  hookOf,
  MODES,
  newWorld,
  seenBy,
  step,
  type World,
} from './access.ts'
import { answerOf, worldsAfter } from './try-stories.ts'

/** An instance, its clock, and clients over both protocols. */
export interface AccessInstance {
  readonly httpUrl: string
  readonly clock: { nowMs: number | undefined; now(): number }
  readonly client: <S extends DescService>(service: S, protocol: 'grpc' | 'connect') => Client<S>
}

export function connectAccess(
  { httpUrl, grpcUrl }: { readonly httpUrl: string; readonly grpcUrl: string },
  clock: AccessInstance['clock'],
): AccessInstance {
  const transports = {
    grpc: createGrpcTransport({ baseUrl: grpcUrl }),
    connect: createConnectTransport({ baseUrl: httpUrl, httpVersion: '1.1' }),
  }
  const client = <S extends DescService>(service: S, protocol: 'grpc' | 'connect') =>
    createClient(service, transports[protocol])
  return { httpUrl, clock, client }
}

/** The service, with its ids for the names of the model. */
export interface AccessDrive {
  readonly durablePool: Pool
  readonly instances: readonly AccessInstance[]
  readonly prefix: string
  /** The beginning of the story, in epoch milliseconds. */
  readonly startMs: number
  /** The last entry of the audit log before the story. */
  readonly auditNumber: bigint
  readonly ids: Map<string, string>
  readonly secrets: Map<string, string>
  worlds: readonly World[]
  calls: number
}

/** Writes of a last use leave a row each, so that they can be counted. */
export const COUNT_USES = `
  create table model_use (id text, at timestamptz);
  create function model_use() returns trigger language plpgsql as $$
    begin insert into model_use values (new.id, new.last_used_at); return null; end $$;
  create trigger model_use after update of last_used_at on session
    for each row execute function model_use();
  create trigger model_use after update of last_used_at on portal_link
    for each row execute function model_use();
  create trigger model_use after update of last_used_at on internal_token
    for each row execute function model_use();`

const CLEAR = `truncate model_use; delete from session; delete from sign_in_code;
  delete from portal_link; delete from internal_token`

/** Creates businesses, each with a key and an endpoint in either mode, in the service and in the model. */
export async function startAccess(
  service: Pick<AccessDrive, 'durablePool' | 'instances' | 'prefix' | 'startMs'>,
  names: readonly string[],
): Promise<AccessDrive> {
  const world = newWorld(service.instances.length)
  const ids = new Map<string, string>()
  const secrets = new Map<string, string>()
  await service.durablePool.query(CLEAR)
  for (const { clock } of service.instances) clock.nowMs = service.startMs
  const [{ client }] = service.instances as [AccessInstance]
  const headers = { authorization: `Bearer ${ADMIN_TOKEN}` }
  for (const name of names) {
    const created = await client(BusinessService, 'grpc').createBusiness({ name }, { headers })
    const businessId = created.business!.id
    ids.set(name, businessId)
    world.businesses.set(name, name)
    const first = { business: name, live: true, scopes: [], cidrs: [] }
    addKey(world, { name: `${name}0` }, { ...first, expiresMs: Number.POSITIVE_INFINITY }, 0)
    ids.set(`${name}0`, `key_${created.secretKey.split('_')[2]}`)
    secrets.set(`${name}0`, created.secretKey)
    for (const live of MODES) {
      const hook = { businessId, live, url: 'http://127.0.0.1:9/hook' }
      const { endpoint } = await client(WebhookService, 'grpc').createEndpoint(hook, { headers })
      ids.set(hookOf(name, live), endpoint!.id)
    }
  }
  const audit = await client(AdminService, 'grpc').listAuditEntries({ pageSize: 1 }, { headers })
  const auditNumber = audit.head!.number
  return {
    ...service,
    auditNumber,
    ids,
    secrets,
    worlds: [world],
    calls: 0,
  }
}

/** Runs commands concurrently. Some order of them must explain their results and the written rows. */
export async function runAccess(drive: AccessDrive, commands: readonly Command[]): Promise<void> {
  const answers = await overlap(drive, commands)
  const worlds = worldsAfter(step, drive.worlds, commands, answers)
  if (worlds.length === 0) throw new Error(explain(drive, commands, answers))
  drive.worlds = await explainUses(drive, worlds)
}

/** Holds two changes of the same row until both have reached the row. */
async function overlap(drive: AccessDrive, commands: readonly Command[]): Promise<Answer[]> {
  const row = commands.length > 1 ? rowOf(drive, commands[0]!) : undefined
  if (row === undefined)
    return Promise.all(commands.map((command) => answerOf(call(drive, command))))
  const client = await drive.durablePool.connect()
  try {
    await client.query('begin')
    await client.query(`select from ${row.table} where id = $1 for update`, [row.id])
    let completed = 0
    const answers = commands.map((command) =>
      answerOf(call(drive, command)).finally(() => {
        completed += 1
      }),
    )
    await waitUntil(async () => {
      const { rows } = await client.query<{ count: number }>(
        `select count(distinct pid)::int as count from pg_locks
          where not granted and pg_backend_pid() = any (pg_blocking_pids(pid))
            or not granted and locktype = 'tuple'`,
      )
      return completed + rows[0]!.count >= commands.length
    })
    await client.query('commit')
    return await Promise.all(answers)
  } finally {
    client.release()
  }
}

const TABLES: Readonly<Record<string, string>> = {
  key: 'api_key',
  tok: 'internal_token',
  plk: 'portal_link',
  ses: 'session',
  sic: 'sign_in_code',
}

function rowOf({ ids }: AccessDrive, command: Command) {
  const name = 'target' in command ? command.target : 'credential' in command && command.credential
  const id = ids.get(name || '')
  const table = TABLES[id?.split('_', 1)[0] ?? '']
  return id === undefined || table === undefined ? undefined : { table, id }
}

function explain(
  drive: AccessDrive,
  commands: readonly Command[],
  answers: readonly Answer[],
): string {
  const texts = commands.map((command, index) => {
    const answer = answers[index]!
    const alone = drive.worlds.flatMap((world) => step(world, command).map((each) => each.answer))
    const expected = [...new Set(alone)].map((each) => differenceOf(each, answer)).join(' | ')
    return `${JSON.stringify(command)}\n  was answered: ${differenceOf(answer, alone[0]!)}\n  alone it would be: ${expected}`
  })
  return `no order of these commands explains their answers:\n${texts.join('\n')}`
}

/** An answer; of a list, the lines that the other one lacks. */
function differenceOf(answer: Answer, other: Answer): string {
  const differing = without(answer.split('\n'), other.split('\n'))
  return differing.length === 0 ? answer : differing.join('\n')
}

/** The worlds in which last uses were written as they were: neither more nor fewer. */
async function explainUses(drive: AccessDrive, worlds: readonly World[]): Promise<World[]> {
  const texts = worlds.map(({ uses }) => uses.join(', ')).join(' | ')
  // A write that a world lacks is noticed at once; one that it has may still come.
  const [fault, found] = await waitFor(async () => {
    const written = await readUses(drive)
    const text = `last uses were written: ${written.join(', ')}\n  instead of: ${texts}`
    if (worlds.every(({ uses }) => without(written, uses).length > 0)) return [text, []] as const
    const found = worlds.filter(({ uses }) => isSame(uses, written))
    if (found.length === 0) throw new Error(text)
    return [undefined, found] as const
  })
  if (fault !== undefined) throw new Error(fault)
  return [...found]
}

async function readUses(drive: AccessDrive): Promise<string[]> {
  const { rows } = await drive.durablePool.query<{ id: string; atMs: number }>(
    `select id, round(date_part('epoch', at) * 1000) as "atMs" from model_use`,
  )
  return rows.map(({ id, atMs }) => `${nameOf(drive, id)} ${atMs - drive.startMs}`)
}

/** What is left of a list without the items of another, each counted. */
function without(list: readonly string[], others: readonly string[]): string[] {
  const left = [...list]
  for (const other of others) if (left.includes(other)) left.splice(left.indexOf(other), 1)
  return left
}

const isSame = (a: readonly string[], b: readonly string[]) =>
  isDeepStrictEqual(a.toSorted(), b.toSorted())

async function call(drive: AccessDrive, command: Command): Promise<Answer> {
  switch (command.kind) {
    case 'move':
      drive.instances[command.at]!.clock.nowMs = drive.startMs + command.toMs
      return 'done'
    case 'signIn':
      return signIn(drive, command)
    case 'signOut': {
      const headers = { cookie: drive.secrets.get(command.session)! }
      const { status } = await page(drive, command.at, 'DELETE', headers)
      return status === 204 ? 'done' : `${status}`
    }
    case 'copySession':
      return copySession(drive, command)
    default:
      return seenBy(command.by, await callRpc(drive, command))
  }
}

// The names of the model in the service

const idOf = ({ ids }: AccessDrive, name: string | undefined) => ids.get(name ?? '') ?? ''

function nameOf({ ids }: AccessDrive, id: string): string {
  const [known] = [...ids].find(([, each]) => each === id) ?? []
  return known?.split('#', 1)[0] ?? (id || '-')
}

const namesOf = (drive: AccessDrive, list: readonly string[]) =>
  list.map((id) => nameOf(drive, id)).toSorted()

const toTime = ({ startMs }: AccessDrive, ms: number) =>
  ms === Number.POSITIVE_INFINITY ? {} : { expiresAt: timestampFromMs(startMs + ms) }

const ms = ({ startMs }: AccessDrive, at: Timestamp | undefined) =>
  at === undefined ? '-' : `${timestampMs(at) - startMs}`

type Rpc = Exclude<Command, { kind: 'move' | 'signIn' | 'signOut' | 'copySession' }>

/** A client of the instance with the caller's credential, over either protocol; cookies and addresses need HTTP. */
function clientFor(drive: AccessDrive, { by, at, from }: Command) {
  drive.calls += 1
  const { client, httpUrl } = drive.instances[at]!
  const secret = by === ADMIN ? ADMIN_TOKEN : drive.secrets.get(by)!
  const isSession = secret.startsWith('inflow-session=')
  const headers: Record<string, string> = isSession
    ? { cookie: secret, ...ownPage({ httpUrl }) }
    : { authorization: `Bearer ${secret}` }
  if (from !== undefined) headers['x-forwarded-for'] = from
  const protocol = isSession || from !== undefined || drive.calls % 2 === 0 ? 'connect' : 'grpc'
  return <S extends DescService>(service: S) => [client(service, protocol), { headers }] as const
}

/** A change to the stored values is no change, and leaves no audit entry. */
let changes = 0

async function callRpc(drive: AccessDrive, command: Rpc): Promise<Answer> {
  const clientOf = clientFor(drive, command)
  const [businesses, options] = clientOf(BusinessService)
  const [admin] = clientOf(AdminService)
  const [sessions] = clientOf(SessionService)
  const [thirdParty] = clientOf(ThirdPartyService)
  const learn = (id: string, secret: string) => {
    drive.ids.set(command.name!, id)
    drive.secrets.set(command.name!, secret)
  }
  switch (command.kind) {
    case 'listEvents':
      await thirdParty.listEvents({}, options)
      return 'done'
    case 'listHooks': {
      const { data } = await thirdParty.listWebhooks({}, options)
      return namesOf(
        drive,
        data!.webhooks.map(({ endpointId }) => endpointId),
      ).join('\n')
    }
    case 'changeHook': {
      changes += 1
      const change = { endpointId: idOf(drive, command.target), description: `ours ${changes}` }
      await thirdParty.updateWebhook(change, options)
      return 'done'
    }
    case 'getCaller': {
      const caller = (await sessions.getCaller({}, options)).caller!
      const id = caller.id === 'bootstrap' ? '-' : nameOf(drive, caller.id)
      return `${id} ${caller.scopes.toSorted()} of ${namesOf(drive, caller.businessIds)}`
    }
    case 'getBusiness': {
      const request = { businessId: idOf(drive, command.business) }
      return (await businesses.getBusiness(request, options)).business!.name
    }
    case 'listBusinesses': {
      const own = [...drive.worlds[0]!.businesses.keys()].map((name) => idOf(drive, name))
      const found = await businesses.listBusinesses({ businessIds: own }, options)
      return lines(found.businesses.map(({ id, name }) => `${nameOf(drive, id)} ${name}`))
    }
    case 'updateBusiness': {
      const change = { businessId: idOf(drive, command.business), name: command.title }
      await businesses.updateBusiness(change, options)
      return 'done'
    }
    case 'issueKey': {
      const { key, secretKey } = await businesses.issueKey(toKey(drive, command), options)
      learn(key!.id, secretKey)
      return showKey(drive, key)
    }
    case 'importKey': {
      const secretKey = `${drive.prefix}-imported-by-another-${command.text}`
      const { key } = await businesses.importKey({ ...toKey(drive, command), secretKey }, options)
      if (nameOf(drive, key!.id) === key!.id) learn(key!.id, secretKey)
      return showKey(drive, key)
    }
    case 'updateKey': {
      const { target, cidrs: allowedCidrs } = command
      const change = { allowedCidrs: [...allowedCidrs], anyAddress: allowedCidrs.length === 0 }
      const request = { keyId: idOf(drive, target), ...change }
      return showKey(drive, (await businesses.updateKey(request, options)).key)
    }
    case 'rotateKey': {
      const overlap = durationFromMs(command.overlapMs)
      const keyId = idOf(drive, command.target)
      const request = { keyId, overlap, ...toTime(drive, command.expiresMs) }
      const { key, secretKey, replaced } = await businesses.rotateKey(request, options)
      learn(key!.id, secretKey)
      return lines([showKey(drive, key), showKey(drive, replaced)])
    }
    case 'revokeKey': {
      const request = { keyId: idOf(drive, command.target) }
      return showKey(drive, (await businesses.revokeKey(request, options)).key)
    }
    case 'issueToken': {
      const businessIds = (command.businesses ?? []).map((each) => idOf(drive, each))
      const token = { name: 'a service', scopes: [...command.scopes], businessIds }
      const request = { ...token, ...toTime(drive, command.expiresMs) }
      const issued = await admin.issueToken(request, options)
      learn(issued.token!.id, issued.secret)
      return showCredential(drive, issued.token)
    }
    case 'revokeToken': {
      const request = { tokenId: idOf(drive, command.target) }
      return showCredential(drive, (await admin.revokeToken(request, options)).token)
    }
    case 'createCode': {
      const { urlPath } = await sessions.createSignInCode({}, options)
      const code = urlPath.split('#')[1]!
      learn(`sic_${code.split('_')[1]}`, code)
      return 'done'
    }
    case 'createLink': {
      const businessId = idOf(drive, command.business)
      const link = { businessId, scopes: [...command.scopes], ttl: durationFromMs(command.ttlMs) }
      const { portalLink, urlPath } = await sessions.createPortalLink(link, options)
      learn(portalLink!.id, urlPath.split('#')[1]!)
      return showCredential(drive, portalLink)
    }
    case 'revokeLink': {
      const request = { portalLinkId: idOf(drive, command.target) }
      return showCredential(drive, (await sessions.revokePortalLink(request, options)).portalLink)
    }
    case 'revokeSession': {
      const request = { sessionId: idOf(drive, command.target) }
      return showSession(drive, (await sessions.revokeSession(request, options)).session!)
    }
    case 'listKeys':
      return list(command.pageSize, async (page) => {
        const request = { businessId: idOf(drive, command.business), ...page }
        const { keys, nextPageToken } = await businesses.listKeys(request, options)
        return { rows: keys, nextPageToken, show: (key: Key) => showKey(drive, key) }
      })
    case 'listTokens':
      return list(command.pageSize, async (page) => {
        const { active } = command
        const request = { ...page, ...(active !== undefined && { active }) }
        const { tokens, nextPageToken } = await admin.listTokens(request, options)
        return { rows: tokens, nextPageToken, show: (each: Token) => showCredential(drive, each) }
      })
    case 'listSessions':
      return list(command.pageSize, async (page) => {
        const request = { ...page, activeOnly: command.active }
        const { sessions: rows, nextPageToken } = await sessions.listSessions(request, options)
        return { rows, nextPageToken, show: (each: Session) => showSession(drive, each) }
      })
    case 'listLinks':
      return list(command.pageSize, async (page) => {
        const { business, active } = command
        const filter = { activeOnly: active, businessId: idOf(drive, business) }
        const found = await sessions.listPortalLinks({ ...page, ...filter }, options)
        const show = (each: PortalLink) => showCredential(drive, each)
        return { rows: found.portalLinks, nextPageToken: found.nextPageToken, show }
      })
    case 'listAudit':
      return listAudit(drive, command, (page) => admin.listAuditEntries(page, options))
  }
}

function toKey(
  drive: AccessDrive,
  {
    business,
    live,
    scopes,
    cidrs,
    expiresMs,
  }: Extract<Command, { kind: 'issueKey' | 'importKey' }>,
) {
  const rights = { scopes: [...scopes], allowedCidrs: [...cidrs] }
  return { businessId: idOf(drive, business), live, ...rights, ...toTime(drive, expiresMs) }
}

interface Page {
  readonly pageSize: number
  readonly pageToken: string
}

/** All rows, newest first, whatever the size of the pages. */
async function list<Row extends { readonly id: string }>(
  pageSize: number,
  read: (page: Page) => Promise<{
    readonly rows: readonly Row[]
    readonly nextPageToken: string
    readonly show: (row: Row) => string
  }>,
): Promise<Answer> {
  const ids: string[] = []
  const shown: string[] = []
  for (let pageToken = ''; ; ) {
    const { rows, nextPageToken, show } = await read({ pageSize, pageToken })
    ids.push(...rows.map(({ id }) => id))
    shown.push(...rows.map(show))
    if (nextPageToken === '') break
    pageToken = nextPageToken
  }
  const isOrdered = isDeepStrictEqual(ids, ids.toSorted().toReversed())
  return isOrdered ? lines(shown) : `out of order: ${shown.join(', ')}`
}

async function listAudit(
  drive: AccessDrive,
  { filter, pageSize }: Extract<Command, { kind: 'listAudit' }>,
  read: (request: object) => ReturnType<Client<typeof AdminService>['listAuditEntries']>,
): Promise<Answer> {
  const wanted = {
    businessId: idOf(drive, filter.business),
    actorId: idOf(drive, filter.actor),
    action: filter.action ?? '',
    targetId: idOf(drive, filter.target),
  }
  const shown: string[] = []
  for (let pageToken = ''; ; ) {
    const { entries, nextPageToken } = await read({ ...wanted, pageSize, pageToken })
    const own = entries.filter(({ number }) => number > drive.auditNumber)
    for (const { action, actor, targetId, businessId } of own) {
      const names = [actor!.id, targetId, businessId].map((id) => nameOf(drive, id))
      shown.push([action, actor!.kind, ...names].join(' '))
    }
    if (nextPageToken === '' || own.length < entries.length) return shown.toReversed().join('\n')
    pageToken = nextPageToken
  }
}

const lines = (texts: readonly string[]) => texts.toSorted().join('\n')

// The data of the service in the terms of the model

interface Shown {
  readonly id: string
  readonly scopes: readonly string[]
  readonly businessId?: string
  readonly businessIds?: readonly string[]
  readonly createdAt?: Timestamp | undefined
  readonly expiresAt?: Timestamp | undefined
  readonly revokedAt?: Timestamp | undefined
  readonly lastUsedAt?: Timestamp | undefined
}

function showRights(drive: AccessDrive, shown: Shown): string {
  const { id, scopes, businessIds = [shown.businessId ?? ''] } = shown
  const times = [shown.createdAt, shown.expiresAt, shown.revokedAt].map((at) => ms(drive, at))
  return `${nameOf(drive, id)} ${scopes.toSorted()} of ${namesOf(drive, businessIds)} at ${times.join(' ')}`
}

const showCredential = (drive: AccessDrive, shown: Shown | undefined) =>
  `${showRights(drive, shown!)} used ${ms(drive, shown!.lastUsedAt)}`

const showKey = (drive: AccessDrive, shown: Key | undefined) =>
  `${showRights(drive, shown!)} ${shown!.live} ${shown!.imported} from ${shown!.allowedCidrs}`

const showSession = (drive: AccessDrive, shown: Session) => {
  const parent = shown.callerId === 'bootstrap' ? ADMIN : nameOf(drive, shown.callerId)
  return `${showCredential(drive, shown)} ${shown.active} of ${parent}`
}

// Browsers

function page(
  drive: AccessDrive,
  at: number,
  method: string,
  headers: Readonly<Record<string, string>>,
  body?: object,
) {
  const { httpUrl } = drive.instances[at]!
  return fetch(`${httpUrl}/console/session`, {
    method,
    headers: { ...ownPage({ httpUrl }), ...headers },
    ...(body && { body: JSON.stringify(body) }),
  })
}

async function signIn(
  drive: AccessDrive,
  { credential: name, replaces, at, name: session }: Extract<Command, { kind: 'signIn' }>,
): Promise<Answer> {
  const secret = name === ADMIN ? ADMIN_TOKEN : drive.secrets.get(name)!
  const credential = /^(ic|pl)_/.test(secret) ? { code: secret } : { token: secret }
  const replaced = replaces === undefined ? '' : drive.secrets.get(replaces)!
  const headers = { 'content-type': 'application/json', cookie: replaced }
  const response = await page(drive, at, 'POST', headers, credential)
  if (response.status !== 204) return ((await response.json()) as { code: string }).code
  const cookie = response.headers.getSetCookie().find((each) => /^inflow-session=./.test(each))
  drive.secrets.set(session!, cookie!.split(';', 1)[0]!)
  drive.ids.set(session!, `ses_${cookie!.split('_')[1]}`)
  return 'done'
}

/** Copies a session, with ids of their own: as many browsers that signed in at the same time. */
async function copySession(
  drive: AccessDrive,
  { session, count, name }: Extract<Command, { kind: 'copySession' }>,
): Promise<Answer> {
  const { rows } = await drive.durablePool.query<{ id: string }>(
    `insert into session (id, kind, caller_id, name, secret_hash, scopes, business_ids, proof, address,
        created_at, last_used_at, expires_at, revoked_at)
      select left(id, 14) || lpad($3::text, 10, '0') || lpad(n::text, 6, '0'), kind, caller_id,
        name, sha256((id || $3::text || n)::bytea), scopes, business_ids, proof, address, created_at, last_used_at, expires_at,
        revoked_at
      from session, generate_series(1, $2) as n where id = $1 returning id`,
    [idOf(drive, session), count, drive.ids.size],
  )
  for (const [index, { id }] of rows.entries()) drive.ids.set(`${name}#${index}`, id)
  return 'done'
}
