import fc from 'fast-check'
import { Registry } from 'prom-client'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { BankPayment, LiveConnector, Requery } from '../../src/banks/bank.ts'
import { DAY_MS } from '../../src/core/durations.ts'
import { createEncrypter } from '../../src/crypto/encryption.ts'
import { registerPendingMetrics } from '../../src/notifications/held-notifications.ts'
import { createNotifications } from '../../src/notifications/notifications.ts'
import { createAssignSession } from '../../src/notifications/payment-sessions.ts'
import {
  processNotification,
  type ReversePayment,
} from '../../src/notifications/process-notification.ts'
import {
  createFinishProcessing,
  createStoreNotification,
  finishNotifications,
  insertNotifications,
  type NewNotification,
  type Processed,
} from '../../src/notifications/store.ts'
import { tamper, useDatabase } from '../support/database.ts'
import { MASTER_KEY } from '../support/master-key.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { waitFor } from '../support/wait-for.ts'

const db = useDatabase()
const NOW_MS = 1_000 * DAY_MS
const clock = { now: () => NOW_MS }

beforeEach(() => tamper(db.database.durablePool, 'delete from bank_notification'))

const query = (text: string, values: unknown[] = []) =>
  db.database.durablePool.query(text, values).then(({ rows }) => rows)

/** How many transactions wrote the rows of a table whose key begins with a prefix. */
async function commitsOf(table: string, column: string, prefix: string): Promise<number> {
  const [row] = await query(
    `select count(distinct xmin::text)::int as n from ${table} where starts_with(${column}, $1)`,
    [prefix],
  )
  return row.n
}

let count = 0
const unique = (prefix: string) => `${prefix}-${++count}-`

const rowOf = (id: string, more: Partial<NewNotification> = {}): NewNotification => ({
  id,
  bank: '9PSB',
  bodyDigest: Buffer.from(id),
  receivedAtMs: 0,
  bankKey: id,
  rawEncrypted: Buffer.from(id),
  nextTryAtMs: Date.now() + 3_600_000,
  accountNumber: '',
  sessionId: '',
  amountMinor: 0n,
  ...more,
})

const processed = (outcome: Processed['outcome'], state: Processed['state']): Processed => ({
  state,
  outcome,
  cause: outcome,
  nextTryAtMs: state === 'PENDING' ? Date.now() + 3_600_000 : undefined,
})

const newStore = () => createStoreNotification(db.database.durablePool)
const newFinish = () => createFinishProcessing(db.database.relaxedPool)
const newAssign = () => createAssignSession(createTestRuntime(db.database, { clock }))

describe('notifications that arrive together', () => {
  test('are stored, get their sessions and are finished in a few commits', async () => {
    const [store, assign, finish] = [newStore(), newAssign(), newFinish()]
    const prefix = unique('few')
    const ids = Array.from({ length: 128 }, (_, index) => `${prefix}${index}`)
    await Promise.all(ids.map((id) => store(rowOf(id))))
    expect(await commitsOf('bank_notification', 'id', prefix)).toBe(2)
    const reports = ids.map((id) => ({ bank: '9PSB' as const, bankKey: id, sessionId: id }))
    expect(await Promise.all(reports.map(assign))).toEqual(ids)
    expect(await commitsOf('bank_payment_key', 'bank_key', prefix)).toBe(1)
    await Promise.all(ids.map((id) => finish(id, processed('RECORDED', 'PROCESSED'))))
    expect(await commitsOf('bank_notification', 'id', prefix)).toBe(1)
  })

  test('are stored once for each body, and finished, by two instances in any order; every copy gets the stored one', async () => {
    const stores = [newStore(), newStore()]
    const finishes = [newFinish(), newFinish()]
    for (let round = 0; round < 3; round++) {
      const prefix = unique('copies')
      const bodies = Array.from({ length: 64 }, (_, index) => `${prefix}body-${index}`)
      const orders = [bodies, bodies.toReversed()]
      const stored = await Promise.all(
        orders.flatMap((ordered, instance) =>
          ordered.map((body) =>
            stores[instance]!(
              rowOf(unique(prefix), { bodyDigest: Buffer.from(body), bankKey: body }),
            ),
          ),
        ),
      )
      const byPrefix = 'from bank_notification where starts_with(id, $1)'
      const rows = await query(`select id, state, outcome, tries ${byPrefix}`, [prefix])
      expect(rows).toHaveLength(64)
      expect(new Set(stored.map((each) => JSON.stringify(each)))).toEqual(
        new Set(rows.map((row) => JSON.stringify(row))),
      )
      const ids = rows.map(({ id }) => id)
      await Promise.all(
        [ids, ids.toReversed()].flatMap((ordered, instance) =>
          ordered.map((id) => finishes[instance]!(id, processed('RETRY', 'PENDING'))),
        ),
      )
      expect(await query(`select distinct tries ${byPrefix}`, [prefix])).toEqual([{ tries: 2 }])
    }
  })

  test('fail alone if the database refuses one of them', async () => {
    const store = newStore()
    const results = await Promise.allSettled(
      [0, 1, 2, 3].map((index) =>
        store(rowOf(`refused-${index}`, index === 1 ? { bankKey: 'with a NUL \0' } : {})),
      ),
    )
    expect(results.map(({ status }) => status)).toEqual(
      [0, 1, 2, 3].map((index) => (index === 1 ? 'rejected' : 'fulfilled')),
    )
    expect(await query('select from bank_notification')).toHaveLength(3)
  })
})

test('all reports of a payment get one session, and no two payments share one, in any batches', () =>
  fc.assert(
    fc.asyncProperty(
      fc.array(fc.record({ key: fc.nat(5), session: fc.nat(5), instance: fc.nat(1) }), {
        minLength: 1,
        maxLength: 40,
      }),
      async (reports) => {
        const prefix = unique('any')
        const instances = [newAssign(), newAssign()]
        const given = await Promise.all(
          reports.map(({ key, session, instance }) => {
            const [bankKey, sessionId] = [`${prefix}${key}`, `${prefix}${session}`]
            return instances[instance]!({ bank: 'PALMPAY', bankKey, sessionId })
          }),
        )
        const rows = await query(
          'select bank_key, session_id from bank_payment_key where starts_with(bank_key, $1)',
          [prefix],
        )
        const sessionOf = new Map(rows.map((row) => [row.bank_key, row.session_id]))
        const keyOf = new Map(rows.map((row) => [row.session_id, row.bank_key]))
        expect(keyOf.size).toBe(rows.length)
        for (const [index, { key, session }] of reports.entries()) {
          const bankKey = `${prefix}${key}`
          if (given[index] !== undefined) expect(given[index]).toBe(sessionOf.get(bankKey))
          else expect([undefined, bankKey]).not.toContain(keyOf.get(`${prefix}${session}`))
        }
      },
    ),
    { numRuns: 25 },
  ))

test('a deadlock over sessions that payments claim from each other fails none of the batch', async () => {
  const assign = newAssign()
  const prefix = unique('deadlock')
  const other = await db.database.durablePool.connect()
  onTestFinished(() => other.release())
  const claim = (key: string, session: string) =>
    other.query(
      `insert into bank_payment_key (bank, bank_key, session_id, created_at)
        values ('PALMPAY', $1, $2, now()) on conflict do nothing`,
      [prefix + key, prefix + session],
    )
  // If the service's statement is not the one that is ended, this one is, a little later.
  await other.query("begin; set local deadlock_timeout = '3s'")
  await claim('other', '2')
  const given = Promise.all(
    ['1', '2', '3', '4'].map((each) =>
      assign({ bank: 'PALMPAY', bankKey: prefix + each, sessionId: prefix + each }),
    ),
  )
  await waitFor(async () => {
    const waiting = await query(
      "select 1 from pg_stat_activity where query like '%assigned as%' and wait_event = 'transactionid'",
    )
    expect(waiting).not.toEqual([])
  })
  await claim('another', '1').catch(() => undefined)
  await other.query('commit')
  expect((await given).slice(2)).toEqual([`${prefix}3`, `${prefix}4`])
})

test('results stored in any batches are those stored one by one', () => {
  const results = [
    processed('RETRY', 'PENDING'),
    processed('UNCONFIRMED', 'PENDING'),
    processed('UNCONFIRMED', 'PROCESSED'),
    processed('MANUAL_REVIEW', 'MANUAL_REVIEW'),
    processed('RECORDED', 'PROCESSED'),
    processed('DUPLICATE', 'PROCESSED'),
  ]
  const item = fc.record({ of: fc.nat(2), result: fc.constantFrom(...results) })
  return fc.assert(
    fc.asyncProperty(fc.array(item, { maxLength: 12 }), async (items) => {
      const [store, finish] = [newStore(), newFinish()]
      const [together, alone] = [unique('together'), unique('alone')]
      const ids = [together, alone].flatMap((prefix) => [0, 1, 2].map((of) => prefix + of))
      await Promise.all(ids.map((id) => store(rowOf(id))))
      await Promise.all(items.map(({ of, result }) => finish(together + of, result)))
      for (const { of, result } of items) await finish(alone + of, result)
      const stateOf = (prefix: string) =>
        query(
          `select right(id, 1) as of, state, outcome, cause, tries, case when tries > 0 then next_try_at end
            from bank_notification where starts_with(id, $1) order by id`,
          [prefix],
        )
      expect(await stateOf(together)).toEqual(await stateOf(alone))
    }),
    { numRuns: 20 },
  )
})

test('pending notifications are counted by bank, with the age of the oldest', async () => {
  const receive = async (id: string, bank: NewNotification['bank'], ageSeconds: number) =>
    insertNotifications(db.database.durablePool, [
      rowOf(id, { bank, receivedAtMs: Date.now() - ageSeconds * 1_000 }),
    ])
  await receive('ntf_1', '9PSB', 1_000)
  await receive('ntf_2', '9PSB', 200)
  await receive('ntf_3', '9PSB', 90_000)
  await receive('ntf_4', 'PALMPAY', 5_000)
  await finishNotifications(db.database.durablePool, [
    { ...processed('RECORDED', 'PROCESSED'), id: 'ntf_3', tries: 1 },
  ])
  const registry = new Registry()
  registerPendingMetrics(createTestRuntime(db.database, { metrics: registry }))
  const text = await registry.metrics()
  const values = (name: string) =>
    ['9PSB', 'PALMPAY', 'PROVIDUS'].map((bank) => {
      const [, value] = new RegExp(`^${name}\\{bank="${bank}"\\} (\\S+)$`, 'm').exec(text) ?? []
      return Number(value)
    })
  expect(values('inflow_bank_notifications_pending')).toEqual([2, 1, 0])
  const ages = values('inflow_bank_oldest_pending_notification_seconds')
  expect(ages.map((seconds) => Math.floor(seconds / 1_000))).toEqual([1, 5, 0])
})

test('deletes processed notifications after the retention and keeps the others', async () => {
  const { durablePool } = db.database
  const store = async (id: string, days: number, state?: 'PROCESSED' | 'MANUAL_REVIEW') => {
    const receivedAtMs = NOW_MS - days * DAY_MS
    await insertNotifications(durablePool, [rowOf(id, { receivedAtMs, nextTryAtMs: receivedAtMs })])
    if (state === undefined) return
    await finishNotifications(durablePool, [{ ...processed('IGNORED', state), id, tries: 1 }])
  }
  await store('young', 89, 'PROCESSED')
  await store('old', 91, 'PROCESSED')
  await store('old-manual-review', 91, 'MANUAL_REVIEW')
  await store('old-pending', 91)
  const unused = () => Promise.reject(new Error('not to be called'))
  const notifications = createNotifications(createTestRuntime(db.database, { clock }), {
    assignSession: unused,
    isReturned: unused,
    recordPayment: unused,
    live: new Map(),
    encrypter: createEncrypter(MASTER_KEY),
    reversePayment: undefined,
    retentionDays: 90,
    observe: () => undefined,
  })
  onTestFinished(notifications.stop)
  notifications.start()
  await waitFor(async () => {
    const rows = await query('select id from bank_notification order by id')
    expect(rows.map(({ id }) => id)).toEqual(['old-manual-review', 'old-pending', 'young'])
  })
})

describe('a reversal', () => {
  const PAYMENT: BankPayment = {
    bankKey: 'order-9',
    sessionId: 'order-9',
    accountNumber: '3000000001',
    amountMinor: 100n,
    paidAtMs: undefined,
    narration: '',
    payer: { name: '', accountNumber: '', bankCode: '', bankName: '' },
  }
  const never = () => Promise.reject(new Error('not to be called'))

  /** Processes a reversal with the given response to its requery. */
  function process(
    response: Requery['kind'],
    reversePayment: ReversePayment | undefined,
    { tries = 0, receivedAtMs = NOW_MS - 3 * DAY_MS } = {},
  ) {
    const requery = async () =>
      ({ kind: response, payment: PAYMENT, cause: 'the given response' }) as Requery
    const connector = { requery } as unknown as LiveConnector
    const dependencies = {
      assignSession: never,
      isReturned: never,
      recordPayment: never,
      reversePayment,
    }
    return processNotification(createTestRuntime(db.database, { clock }), dependencies, {
      bank: 'PALMPAY',
      receivedAtMs,
      recordedBy: 'notification',
      tries,
      served: { connector, callTimeoutMs: 10_000, allowedCidrs: [], requery: true },
      reading: { kind: 'reversal', payment: PAYMENT, bound: true },
    })
  }

  test('reverses the payment under the session id with which it was recorded', async () => {
    await newAssign()({ bank: 'PALMPAY', bankKey: 'order-9', sessionId: 'SESSION' })
    const reversed: string[][] = []
    const reverse: ReversePayment = async (...call) => {
      reversed.push(call)
      return reversed.length === 1 ? 'reversed' : 'already reversed'
    }
    for (const outcome of ['RECORDED', 'DUPLICATE']) {
      expect(await process('reversed', reverse)).toMatchObject({ state: 'PROCESSED', outcome })
    }
    expect(reversed[0]).toEqual(['PALMPAY', 'SESSION', expect.any(String)])
  })

  test('is for manual review if the payment is not recorded or cannot be reversed', async () => {
    for (const reverse of [async () => 'not recorded' as const, undefined]) {
      expect((await process('reversed', reverse)).state).toBe('MANUAL_REVIEW')
    }
  })

  test('is tried for two days while it is not confirmed, and longer while the bank repeats it', async () => {
    let nowMs = NOW_MS
    for (let tries = 0; tries < 54; tries++) {
      const result = await process('confirmed', never, { tries })
      expect(result).toMatchObject({ state: 'PENDING', outcome: 'RETRY' })
      nowMs += result.nextTryAtMs! - NOW_MS
    }
    expect(nowMs - NOW_MS).toBeGreaterThan(1.6 * DAY_MS)
    const cases = [
      ['unknown', { tries: 54 }, 'MANUAL_REVIEW', 'MANUAL_REVIEW'],
      // The bank repeats its notification at once.
      ['unknown', { tries: 200, receivedAtMs: NOW_MS }, 'PENDING', 'RETRY'],
      ['denied', { tries: 200, receivedAtMs: NOW_MS }, 'PENDING', 'UNCONFIRMED'],
      ['denied', { tries: 0 }, 'PENDING', 'UNCONFIRMED'],
      ['denied', { tries: 8 }, 'PROCESSED', 'UNCONFIRMED'],
    ] as const
    for (const [response, when, state, outcome] of cases) {
      expect(await process(response, never, when)).toMatchObject({ state, outcome })
    }
  })
})
