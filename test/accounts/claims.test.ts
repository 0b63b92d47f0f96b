import type { Pool } from 'pg'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { createCreateAccount } from '../../src/accounts/create-account.ts'
import { createOpenAtBank } from '../../src/accounts/open-at-bank.ts'
import { claimPending } from '../../src/accounts/opening-store.ts'
import type { AccountOrder, AccountResult, BankConnector, BankOf } from '../../src/banks/bank.ts'
import { createBusiness } from '../../src/businesses/create-business.ts'
import { createEncrypter } from '../../src/crypto/encryption.ts'
import { until } from '../protocols/rest/rest.ts'
import { useDatabase } from '../support/database.ts'
import { SYSTEM } from '../support/operator.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { MASTER_KEY } from '../support/service.ts'

const db = useDatabase()

/** An order that waits at the bank until the test responds. */
interface WaitingOrder {
  readonly order: AccountOrder
  respond(result: AccountResult): void
}

let nowMs: number
let atBank: WaitingOrder[]
let businessId: string

const clock = { now: () => nowMs }

beforeEach(async () => {
  nowMs = Date.now()
  atBank = []
  callTimeoutMs = 10_000
  sent = []
  faults = 0
  const request = { name: 'Acme', alias: '' }
  businessId = (await createBusiness(createTestRuntime(db.database, { clock }), request, SYSTEM))
    .business.id
})

const bank: BankConnector = {
  afterCrash: 'retry',
  openAccount: (order) =>
    new Promise((resolve) => {
      atBank.push({ order, respond: resolve })
    }),
}

/** How long a call of the bank may take. */
let callTimeoutMs: number

const bankOf: BankOf = () => ({ name: 'live', connector: bank, callTimeoutMs })

/** The names of the statements that were sent. */
let sent: string[]

/** How many times storing an opened account fails because the database is unavailable. */
let faults: number

/** The real pool, recording the names of its statements. */
function observedPool(): Pool {
  const { durablePool } = db.database
  const query = (statement: { name: string }) => {
    sent.push(statement.name)
    if (statement.name === 'account-open' && faults > 0) {
      faults -= 1
      return Promise.reject(new Error('connection terminated'))
    }
    return durablePool.query(statement as never)
  }
  return Object.assign(Object.create(durablePool), { query }) as Pool
}

/** Creates the account at a separate instance. */
const create = () => startInstance()()

/** @returns what creates the account at one instance, with a one-time code */
function startInstance() {
  const runtime = createTestRuntime({ ...db.database, durablePool: observedPool() }, { clock })
  const openAtBank = createOpenAtBank(runtime, { bankOf })
  const encrypter = createEncrypter(MASTER_KEY)
  const call = createCreateAccount(runtime, {
    bankOf,
    openAtBank,
    encrypter,
    aliasOf: async () => 'Acme',
  })
  return (otp?: string) =>
    call({
      businessId,
      live: true,
      reference: 'order-1',
      bank: '9PSB',
      firstName: 'Ada',
      lastName: 'Obi',
      email: 'ada@example.com',
      phone: '08012345678',
      idType: undefined,
      idNumber: undefined,
      verification: otp === undefined ? undefined : { identityId: 'customer-1', otp },
    })
}

async function claimedForMs(): Promise<number> {
  const { rows } = await db.database.durablePool.query(
    'select extract(epoch from claimed_until) * 1000 as until from account where business_id = $1',
    [businessId],
  )
  return Number(rows[0].until) - nowMs
}

const bankHas = (count: number) =>
  until(
    async () => atBank.length,
    (length) => length >= count,
  )

let numbers = 0

function opened(): AccountResult {
  numbers += 1
  const accountNumber = `${numbers}`.padStart(10, '0')
  return { kind: 'opened', accountNumber, bankAccountId: '', accountName: 'Acme/Ada Obi' }
}

describe('one call at a time asks the bank for an account', () => {
  test('another instance waits for that call and returns its result', async () => {
    const first = create()
    await bankHas(1)
    const second = create()
    atBank[0]!.respond(opened())
    const [one, other] = await Promise.all([first, second])
    expect(other.replayed).toBe(true)
    expect(other.account.accountNumber).toBe(one.account.accountNumber)
    expect(atBank).toHaveLength(1)
  })

  test('a call with another one-time code does not get the rejection of the first', async () => {
    const at = startInstance()
    const calls = [at('111111'), at('222222')]
    const results = Promise.allSettled(calls)
    await bankHas(1)
    const fields = [{ field: 'otp', message: 'was not accepted by the bank' }]
    atBank[0]!.respond({ kind: 'rejected', fields })
    await bankHas(2)
    atBank[1]!.respond(opened())
    const opening = atBank.map(({ order }) => order.verification?.otp)
    expect([...opening].sort()).toEqual(['111111', '222222'])
    const [one, other] = await results
    const first = opening[0] === '111111' ? one : other
    const second = opening[0] === '111111' ? other : one
    expect(first).toMatchObject({ status: 'rejected', reason: { reason: 'validation_failed' } })
    expect(second).toMatchObject({ status: 'fulfilled', value: { replayed: false } })
  })

  test('a slow bank is waited for, without the caller, and what it opened is stored', async () => {
    callTimeoutMs = 60_000
    const timeouts = vi.spyOn(AbortSignal, 'timeout')
    const refused = expect(create()).rejects.toMatchObject({
      reason: 'bank_unavailable',
      cause: 'the bank has not responded yet',
    })
    await bankHas(1)
    expect(timeouts).toHaveBeenCalledWith(60_000)
    timeouts.mockRestore()
    expect(await claimedForMs()).toBe(65_000)
    nowMs += 20_001
    await refused
    // A repeat waits for the same call.
    const repeat = create()
    atBank[0]!.respond(opened())
    expect(await repeat).toMatchObject({ replayed: true })
    expect(atBank).toHaveLength(1)
  })

  test('a call that waited does not ask again for what the first left in manual review', async () => {
    const calls = [create(), create()]
    await bankHas(1)
    await until(
      async () => sent.filter((name) => name === 'account-claim'),
      ({ length }) => length > 0,
    )
    atBank[0]!.respond({ kind: 'unknown', cause: 'no response', next: 'manual review' })
    await Promise.all(
      calls.map((call) => expect(call).rejects.toMatchObject({ reason: 'account_in_review' })),
    )
    expect(atBank).toHaveLength(1)
    // Nor does a call that read the account before it went to review.
    const { durablePool } = db.database
    const { rows } = await durablePool.query('select id from account where business_id = $1', [
      businessId,
    ])
    nowMs += 60_000
    expect(await claimPending(durablePool, rows[0].id, nowMs, nowMs + 1_000)).toBeUndefined()
  })

  test('a call that waits longer than a claim lasts gets bank_unavailable', async () => {
    void create().catch(() => undefined)
    await bankHas(1)
    await db.database.durablePool.query(
      "update account set claimed_until = claimed_until + interval '1 hour' where business_id = $1",
      [businessId],
    )
    const second = create()
    const rejected = expect(second).rejects.toMatchObject({ reason: 'bank_unavailable' })
    const timer = setInterval(() => {
      nowMs += 5_000
    }, 20)
    await rejected
    clearInterval(timer)
  })

  test('stores the opened account even if the database was briefly unavailable', async () => {
    faults = 2
    const call = create()
    await bankHas(1)
    const result = opened()
    atBank[0]!.respond(result)
    const { account } = await call
    expect(account).toMatchObject({ status: 'ACTIVE', accountName: 'Acme/Ada Obi' })
    expect(faults).toBe(0)
    expect((await create()).account.accountNumber).toBe(account.accountNumber)
    expect(atBank).toHaveLength(1)
  })
})
