import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createAssignSession } from '../../src/notifications/payment-sessions.ts'
import type { NewNotification, Processed } from '../../src/notifications/store.ts'
import { createFinishProcessing, createStoreNotification } from '../../src/notifications/store.ts'
import { until } from '../protocols/rest/rest.ts'
import { useFakeBank } from '../support/fake-bank.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { useService } from '../support/service.ts'
import { notify, payee, payment, recordedIn } from './scene.ts'

const bank = useFakeBank()
const service = useService({ BANKS: '9PSB=live' }, bank.connectors)
const clock = { now: () => 1_000_000 }

const query = (text: string, values: unknown[] = []) =>
  service.database.durablePool.query(text, values).then(({ rows }) => rows)

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

const rowOf = (id: string, body = id): NewNotification => ({
  ...{ id, bank: '9PSB', bodyDigest: Buffer.from(body), receivedAtMs: 0, bankKey: body },
  ...{ rawEncrypted: Buffer.from(id), nextTryAtMs: Date.now() + 3_600_000 },
  ...{ accountNumber: '', sessionId: '', amountMinor: 0n },
})

const processed = (outcome: Processed['outcome'], state: Processed['state']): Processed => ({
  ...{ state, outcome, cause: outcome },
  nextTryAtMs: state === 'PENDING' ? Date.now() + 3_600_000 : undefined,
})

describe('notifications that arrive together', () => {
  test('are stored, get their sessions and are finished in a few commits', async () => {
    const { durablePool, relaxedPool } = service.database
    const [store, assign] = [
      createStoreNotification(durablePool),
      createAssignSession(createTestRuntime(service.database, { clock })),
    ]
    const finish = createFinishProcessing(relaxedPool)
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

  test('are stored once for each body, also by two instances in any order, and every copy gets the stored one', async () => {
    const instances = [1, 2].map(() => createStoreNotification(service.database.durablePool))
    for (let round = 0; round < 10; round++) {
      const prefix = unique('copies')
      const bodies = Array.from({ length: 64 }, (_, index) => `${prefix}body-${index}`)
      const stored = await Promise.all(
        [bodies, bodies.toReversed()].flatMap((ordered, instance) =>
          ordered.map(async (body) => {
            const { id, state, tries } = await instances[instance]!(rowOf(unique(prefix), body))
            return [body, id, state, tries].join()
          }),
        ),
      )
      const rows = await query(
        'select bank_key, id, state, tries from bank_notification where starts_with(id, $1)',
        [prefix],
      )
      expect(rows).toHaveLength(64)
      expect(new Set(stored)).toEqual(new Set(rows.map((row) => Object.values(row).join())))
    }
  })

  test('are finished by two instances in any order', async () => {
    const { durablePool, relaxedPool } = service.database
    const store = createStoreNotification(durablePool)
    const instances = [1, 2].map(() => createFinishProcessing(relaxedPool))
    for (let round = 0; round < 10; round++) {
      const prefix = unique('finished')
      const ids = Array.from({ length: 200 }, (_, index) => `${prefix}${index}`)
      await Promise.all(ids.map((id) => store(rowOf(id))))
      await Promise.all(
        [ids, ids.toReversed()].flatMap((ordered, instance) =>
          ordered.map((id) => instances[instance]!(id, processed('RETRY', 'PENDING'))),
        ),
      )
      expect(
        await query('select distinct tries from bank_notification where starts_with(id, $1)', [
          prefix,
        ]),
      ).toEqual([{ tries: 2 }])
    }
  })

  test('fail alone if the database refuses one of them', async () => {
    const store = createStoreNotification(service.database.durablePool)
    const prefix = unique('refused')
    const results = await Promise.allSettled(
      Array.from({ length: 40 }, (_, index) => {
        const row = rowOf(`${prefix}${index}`)
        return store(index === 17 ? { ...row, bankKey: 'with a NUL \0' } : row)
      }),
    )
    expect(results.flatMap(({ status }, index) => (status === 'rejected' ? [index] : []))).toEqual([
      17,
    ])
    const stored = 'select from bank_notification where starts_with(id, $1)'
    expect(await query(stored, [prefix])).toHaveLength(39)
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
        const instances = [1, 2].map(() =>
          createAssignSession(createTestRuntime(service.database, { clock })),
        )
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
    { numRuns: 60 },
  ))

test('of two reports of a payment in one batch the first decides its session', async () => {
  const assign = createAssignSession(createTestRuntime(service.database, { clock }))
  const bankKey = unique('first')
  const report = { bank: 'PALMPAY', bankKey } as const
  const sessions = [`${bankKey}b`, `${bankKey}a`]
  expect(await Promise.all(sessions.map((sessionId) => assign({ ...report, sessionId })))).toEqual([
    sessions[0],
    sessions[0],
  ])
})

test('a deadlock over sessions that payments claim from each other fails none of the batch', async () => {
  const assign = createAssignSession(createTestRuntime(service.database, { clock }))
  const prefix = unique('deadlock')
  const other = await service.database.durablePool.connect()
  const claim = (key: string, session: string) =>
    other.query(
      `insert into bank_payment_key (bank, bank_key, session_id, created_at)
        values ('PALMPAY', $1, $2, now()) on conflict do nothing`,
      [prefix + key, prefix + session],
    )
  try {
    // If the service's statement is not the one that is ended, this one is, a little later.
    await other.query("begin; set local deadlock_timeout = '3s'")
    await claim('other', '2')
    const given = Promise.all(
      ['1', '2', '3', '4'].map((each) =>
        assign({ bank: 'PALMPAY', bankKey: prefix + each, sessionId: prefix + each }),
      ),
    )
    await until(
      () =>
        query(
          "select 1 from pg_stat_activity where query like '%assigned as%' and wait_event = 'transactionid'",
        ),
      (rows) => rows.length > 0,
    )
    await claim('another', '1').catch(() => undefined)
    await other.query('commit')
    const rows = await query(
      'select bank_key, session_id from bank_payment_key where starts_with(bank_key, $1)',
      [prefix],
    )
    const sessions = await given
    expect(sessions.slice(2)).toEqual([`${prefix}3`, `${prefix}4`])
    expect(rows.length).toBeGreaterThan(0)
  } finally {
    other.release()
  }
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
      const { durablePool, relaxedPool } = service.database
      const store = createStoreNotification(durablePool)
      const finish = createFinishProcessing(relaxedPool)
      const [together, alone] = [unique('together'), unique('alone')]
      const ids = [together, alone].flatMap((prefix) => [0, 1, 2].map((of) => prefix + of))
      await Promise.all(ids.map((id) => store(rowOf(id))))
      await Promise.all(items.map(({ of, result }) => finish(together + of, result)))
      for (const { of, result } of items) await finish(alone + of, result)
      const stateOf = (prefix: string) =>
        query(
          `select right(id, 1) as of, state, outcome, cause, tries, next_try_at
            from bank_notification where starts_with(id, $1) order by id`,
          [prefix],
        )
      const untouched = (rows: readonly { tries: number }[]) =>
        rows.map((row) => (row.tries === 0 ? { tries: 0 } : row))
      expect(untouched(await stateOf(together))).toEqual(untouched(await stateOf(alone)))
    }),
    { numRuns: 40 },
  )
})

describe('while the result of a notification cannot be stored', () => {
  beforeAll(() =>
    query(`create function refuse_result() returns trigger language plpgsql as $$
        begin
          if new.bank_key = 'refused' and new.state <> 'PENDING' then raise exception 'refused'; end if;
          return new;
        end $$`),
  )
  afterAll(() => query('drop function refuse_result cascade'))

  test('the payment is acknowledged, and later processed again without another credit', async () => {
    const to = await payee(service)
    const reported = payment(to.accountNumber, { key: 'refused' })
    bank.payments.set(reported.key, reported)
    const find = () =>
      query("select state, outcome from bank_notification where bank_key = 'refused'")
    await query(`create trigger refuse_result before update on bank_notification
      for each row execute function refuse_result()`)
    expect((await notify(service, reported)).text).toBe('RECORDED')
    expect(await find()).toEqual([{ state: 'PENDING', outcome: 'RETRY' }])
    await query('drop trigger refuse_result on bank_notification')
    await query("update bank_notification set next_try_at = now() where bank_key = 'refused'")
    await until(find, ([row]) => row.state === 'PROCESSED', 30_000)
    expect(await find()).toEqual([{ state: 'PROCESSED', outcome: 'DUPLICATE' }])
    expect(await recordedIn(service, to)).toHaveLength(1)
  })
})
