import fc from 'fast-check'
import { beforeAll, expect, test } from 'vitest'
import { claimEnded, endAccounts } from '../../src/accounts/close-account.ts'
import {
  claimDue,
  claimPending,
  closeOpen,
  deletePending,
  deleteUnclaimed,
  openPending,
  switchConnector,
  updatePending,
} from '../../src/accounts/opening-store.ts'
import { newId } from '../../src/core/ids.ts'
import { inTransaction } from '../../src/postgres/in-transaction.ts'
import { listAccountsPage } from '../../src/reconciliation/job.ts'
import { tamper, useDatabase } from '../support/database.ts'
import { expectStories, MODEL_SECONDS, recount, weighted } from './try-stories.ts'

/**
 * A model of accounts while instances with different clocks open and close them. A late instance holds a claim that has
 * ended, and must change nothing. The accounts that reconciliation lists, on pages of any size, follow from the model.
 */

const db = useDatabase()

interface Account {
  readonly id: string
  status: 'PENDING' | 'ACTIVE' | 'EXPIRED' | 'CLOSED'
  connector: 'live' | 'sandbox'
  attempts: number
  claimedUntil: number
  nextTryAt: number | null
  state: string
  endDueAt: number | null
  /** Whether it has a payment, once it is open. */
  readonly isPaid: boolean
}

/** A claim that an instance holds, or believes to hold. */
interface Claim {
  readonly id: string
  readonly attempt: number
}

interface World {
  readonly accounts: Map<string, Account>
  readonly claims: Claim[]
}

const CLAIM = 10
const EXPIRES = 40
const LISTED = 20
const STATES = ['RETRYABLE', 'RETRYING', 'REQUERYING', 'MANUAL_REVIEW'] as const

/** `at` and all other times are minutes. */
const command = fc.record({
  kind: weighted({
    add: 1,
    delete: 1,
    claim: 3,
    claimDue: 3,
    update: 3,
    switch: 3,
    open: 1,
    openUnclaimed: 1,
    deleteUnclaimed: 1,
    end: 3,
    close: 3,
    claimEnded: 3,
  }),
  which: fc.nat(99),
  at: fc.integer({ min: 0, max: 60 }),
  state: fc.constantFrom(...STATES),
  nextTry: fc.option(fc.integer({ min: 0, max: 60 })),
  connector: fc.constantFrom('live' as const, 'sandbox' as const),
  limit: fc.integer({ min: 1, max: 2 }),
})
type Command = typeof command extends fc.Arbitrary<infer Each> ? Each : never

const START_MS = Date.UTC(2026, 10, 2)
const msOf = (minute: number) => START_MS + minute * 60_000
const minuteOf = (ms: number | null) => ms && (ms - START_MS) / 60_000

let businessId: string
let count = 0

beforeAll(async () => {
  businessId = newId('biz', START_MS)
  await db.database.durablePool.query(
    "insert into business (id, name, alias, created_at) values ($1, 'Acme', 'acme', now())",
    [businessId],
  )
})

async function add(world: World, connector: Account['connector'], isPaid: boolean): Promise<void> {
  count += 1
  const id = newId('acc', START_MS + count)
  await db.database.durablePool.query(
    `insert into account (id, business_id, live, reference, merchant_reference, bank, connector, status,
        first_name, last_name, email, phone, details_hash, attempts, claimed_until, next_try_at, created_at,
        one_time, expires_at)
      values ($1, $2, true, $1, $1, '9PSB', $3, 'PENDING', '', '', '', '', '', 0, $4, $4, $4, true, $5)`,
    [id, businessId, connector, new Date(START_MS), new Date(msOf(EXPIRES))],
  )
  world.accounts.set(id, {
    id,
    status: 'PENDING',
    connector,
    attempts: 0,
    claimedUntil: 0,
    nextTryAt: 0,
    state: 'CREATING',
    endDueAt: null,
    isPaid,
  })
}

/** Records a payment into an account. */
async function pay(id: string): Promise<void> {
  await tamper(
    db.database.durablePool,
    `insert into transaction (id, business_id, account_id, live, bank, session_id, amount_minor, status,
        paid_at, created_at, payer_name, payer_account_number, payer_bank_code, payer_bank_name, narration,
        recorded_by)
      values ($1, $2, $3, true, '9PSB', $1, 100, 'SUCCESS', $4, $4, '', '', '', '', '', 'token:t')`,
    [newId('txn', START_MS), businessId, id, new Date(START_MS)],
  )
}

const eventOf = () => ({ eventId: newId('evt', START_MS), payload: Buffer.from('') })

/** Does a command, and says what it must have done. */
async function execute(world: World, each: Command): Promise<void> {
  const { durablePool, orm } = db.database
  const em = orm.em.fork()
  const { kind, at } = each
  const accounts = [...world.accounts.values()]
  const account = accounts[each.which % accounts.length]
  const claim = world.claims[each.which % Math.max(1, world.claims.length)]
  const claimed = claim && world.accounts.get(claim.id)
  const isHeld = claimed?.status === 'PENDING' && claimed.attempts === claim?.attempt
  const take = (one: Account) => {
    one.claimedUntil = one.nextTryAt = at + CLAIM
    one.attempts += 1
    one.state = 'CREATING'
    world.claims.push({ id: one.id, attempt: one.attempts })
  }
  if (kind === 'add') await add(world, each.connector, each.which % 2 === 0)
  if (kind === 'claimDue') {
    const due = accounts
      .filter(({ status, nextTryAt, claimedUntil }) => {
        return status === 'PENDING' && nextTryAt !== null && nextTryAt <= at && claimedUntil <= at
      })
      .map(({ id, nextTryAt }) => ({ id, nextTryAt: nextTryAt as number }))
    const found = await claimDue(durablePool, msOf(at), msOf(at + CLAIM), each.limit)
    expect(found.length).toBe(Math.min(each.limit, due.length))
    for (const { account: one, attempt } of found) {
      expect(due.map(({ id }) => id)).toContain(one.id)
      take(world.accounts.get(one.id)!)
      expect(attempt).toBe(world.accounts.get(one.id)!.attempts)
    }
  }
  if (kind === 'claimEnded') {
    const due = accounts.filter(({ status, endDueAt }) => {
      return ['EXPIRED', 'CLOSED'].includes(status) && endDueAt !== null && endDueAt <= at
    })
    const found = await claimEnded(durablePool, msOf(at), msOf(at + CLAIM), 100)
    expect(found.map(({ account: one }) => one.id).toSorted()).toEqual(
      due.map(({ id }) => id).toSorted(),
    )
    for (const one of due) one.endDueAt = at + CLAIM
  }
  if (claim) {
    const next = {
      state: each.state,
      cause: 'late',
      nextTryAtMs: each.nextTry === null ? undefined : msOf(each.nextTry),
    }
    if (kind === 'update') {
      await updatePending(em, claim.id, claim.attempt, next, msOf(at))
      if (isHeld)
        Object.assign(claimed, { state: each.state, nextTryAt: each.nextTry, claimedUntil: at })
    }
    if (kind === 'delete') {
      await deletePending(em, claim.id, claim.attempt)
      if (isHeld) world.accounts.delete(claim.id)
    }
    if (kind === 'switch') {
      expect(await switchConnector(em, claim.id, claim.attempt, each.connector)).toBe(isHeld)
      if (isHeld) claimed.connector = each.connector
    }
  }
  if (account === undefined) return
  const { id } = account
  if (kind === 'claim') {
    const isFree =
      account.status === 'PENDING' &&
      account.claimedUntil <= at &&
      account.state !== 'MANUAL_REVIEW'
    const { state: priorState } = account
    const found = await claimPending(durablePool, id, msOf(at), msOf(at + CLAIM))
    if (isFree) take(account)
    expect(found).toEqual(isFree ? { attempt: account.attempts, priorState } : undefined)
  }
  if (kind === 'deleteUnclaimed') {
    const isFree = account.status === 'PENDING' && account.claimedUntil <= at
    expect(await deleteUnclaimed(em, id, msOf(at))).toBe(isFree)
    if (isFree) world.accounts.delete(id)
  }
  if (kind === 'open' || kind === 'openUnclaimed') {
    const isUnclaimed = kind === 'open' || account.claimedUntil <= at
    const isOpened = account.status === 'PENDING' && isUnclaimed
    const opening = {
      id,
      accountNumber: id,
      accountName: 'Ada',
      bankAccountId: '',
      occurredAtMs: msOf(at),
      ...eventOf(),
    }
    const opened = await openPending(durablePool, [opening], kind === 'open' ? undefined : msOf(at))
    expect(opened.has(id)).toBe(isOpened)
    if (isOpened && account.isPaid) await pay(id)
    if (isOpened) Object.assign(account, { status: 'ACTIVE', nextTryAt: null, endDueAt: EXPIRES })
  }
  if (kind === 'close') {
    const isOpen = account.status === 'ACTIVE' || account.status === 'EXPIRED'
    const event = { occurredAtMs: msOf(at), ...eventOf() }
    expect(await closeOpen(durablePool, id, event, msOf(at + LISTED))).toBe(isOpen)
    // One that expired is listed for some days already.
    if (account.status === 'ACTIVE')
      account.endDueAt = account.connector === 'live' ? at + LISTED : null
    if (isOpen) account.status = 'CLOSED'
  }
  if (kind === 'end' && account.status === 'ACTIVE') {
    await inTransaction(durablePool, (client) =>
      endAccounts(client, [{ accountId: id, ...eventOf() }], msOf(at)),
    )
    Object.assign(account, {
      status: 'EXPIRED',
      endDueAt: account.connector === 'live' ? at : null,
    })
  }
}

async function compare(world: World): Promise<void> {
  const { rows } = await db.database.durablePool.query(
    `select id, status, connector, attempts, opening_state,
        round(date_part('epoch', claimed_until) * 1000) as claimed_until,
        round(date_part('epoch', next_try_at) * 1000) as next_try_at,
        round(date_part('epoch', end_due_at) * 1000) as end_due_at
      from account where business_id = $1 order by id`,
    [businessId],
  )
  const found = rows.map((row): Account => {
    return {
      id: row.id,
      status: row.status,
      connector: row.connector,
      attempts: row.attempts,
      claimedUntil: minuteOf(row.claimed_until)!,
      nextTryAt: minuteOf(row.next_try_at),
      state: row.opening_state,
      endDueAt: minuteOf(row.end_due_at),
      isPaid: world.accounts.get(row.id)?.isPaid ?? false,
    }
  })
  const expected = [...world.accounts.values()].toSorted((a, b) => (a.id < b.id ? -1 : 1))
  expect(found).toEqual(expected)
  const listed = expected.filter(({ status, connector, endDueAt }) => {
    return connector === 'live' && (status === 'ACTIVE' || endDueAt !== null)
  })
  const idsOf = (accounts: readonly Account[]) => accounts.map(({ id }) => id)
  for (const limit of [1, 2, 100]) {
    expect(await list(limit, undefined)).toEqual(idsOf(listed))
    expect(await list(limit, START_MS)).toEqual(idsOf(listed.filter(({ isPaid }) => isPaid)))
  }
}

async function list(limit: number, paidSinceMs: number | undefined): Promise<string[]> {
  const all: string[] = []
  for (let afterId: string | undefined = ''; afterId !== undefined; ) {
    const request = { bank: '9PSB', afterId, paidSinceMs, limit } as const
    const page: Awaited<ReturnType<typeof listAccountsPage>> = await listAccountsPage(
      db.database,
      request,
    )
    // Its reference is its id here.
    all.push(...page.accounts.map(({ reference }) => reference))
    expect(all.length, 'a list ends').toBeLessThan(100)
    afterId = page.cursor
  }
  return all
}

async function play(commands: readonly Command[]): Promise<void> {
  const world: World = { accounts: new Map(), claims: [] }
  await tamper(db.database.durablePool, 'delete from account where business_id = $1', [businessId])
  const done: string[] = []
  await recount(done, async () => {
    await add(world, 'live', true)
    for (const each of commands) {
      done.push(JSON.stringify(each))
      await execute(world, each)
      await compare(world)
    }
  })
}

test(
  'an account is opened and ended once, whichever instance is late, and listed until then',
  async () => {
    const story = fc.array(command, { minLength: 1, maxLength: 25, size: 'max' })
    const seconds = Math.min(MODEL_SECONDS, 5) / 2
    await expectStories(story, play, seconds)
  },
  (MODEL_SECONDS + 100) * 1_000,
)
