import { beforeAll, describe, expect, test } from 'vitest'
import { inTransaction, type Queryable } from '../../src/postgres/in-transaction.ts'
import { type LedgerState, type PostingKind, TRANSITIONS } from '../../src/transactions/ledger.ts'
import { TRANSACTION_STATUSES, type TransactionStatus } from '../../src/transactions/transaction.ts'
import { lockWaits, useDatabase } from '../support/database.ts'

const db = useDatabase()

const sql = (text: string, values: unknown[] = []) => db.database.durablePool.query(text, values)

/** Expects SQLSTATE class 23: the database itself rejects the statement. */
const refuses = (text: string, values: unknown[] = []) =>
  expect(sql(text, values), text).rejects.toMatchObject({ code: expect.stringMatching(/^23/) })

let count = 0

beforeAll(async () => {
  await sql(
    "insert into business (id, name, alias, created_at) values ('biz_1', 'A', 'A', now()), ('biz_2', 'B', 'B', now())",
  )
  for (const number of ['1', '2']) {
    await sql(
      `insert into account (id, business_id, live, reference, merchant_reference, bank, account_number,
          account_name, status, first_name, last_name, email, phone, details_hash, attempts,
          claimed_until, created_at)
        values ('acc_' || $1, 'biz_' || $1, true, 'R-' || $1, 'order-1', '9PSB', '000000000' || $1, 'A/B',
          'ACTIVE', 'A', 'B', 'a@b.co', '08012345678', '\\x00', 1, now(), now())`,
      [number],
    )
  }
})

async function insert(status: TransactionStatus, overrides: Record<string, unknown> = {}) {
  count += 1
  const row = {
    id: `txn_${count}`,
    business_id: 'biz_1',
    account_id: 'acc_1',
    bank: '9PSB',
    session_id: `session-${count}`,
    amount_minor: 500,
    status,
    ...overrides,
  }
  await sql(
    `with session as (
        insert into payment_session (session_id, bank, live, transaction_id) values ($5, $4, true, $1)
      )
      insert into transaction (id, live, business_id, account_id, bank, session_id, amount_minor, status,
        paid_at, created_at, payer_name, payer_account_number, payer_bank_code, payer_bank_name,
        narration, recorded_by)
      values ($1, true, $2, $3, $4, $5, $6, $7, now(), now(), '', '', '', '', '', 'notification')`,
    Object.values(row),
  )
  return row.id
}

const SHARES = [1, 2, 3, 4, 5] as const

/** The postings of a settlement, and of a reversal before and after it: see ledger.test.ts. */
const [SETTLED, REVERSED, REVERSED_SETTLED] = TRANSITIONS.slice(2).map(
  ({ postings }) => postings,
) as [PostingKind[], PostingKind[], PostingKind[]]

const SIDES: Readonly<Partial<Record<PostingKind, readonly [debit: string, credit: string]>>> = {
  payment: ['clearing:9PSB', 'pending'],
  acceptance: ['held', 'pending'],
  settlement: ['pending', 'available'],
  fee: ['available', 'fees'],
  split: ['available', 'splits'],
  split_reversal: ['splits', 'available'],
  ...Object.fromEntries(
    SHARES.flatMap((number) => [
      [`share_${number}`, ['splits', 'available']],
      [`share_${number}_reversal`, ['available', 'splits']],
    ]),
  ),
  fee_reversal: ['fees', 'available'],
  settlement_reversal: ['available', 'pending'],
  acceptance_reversal: ['pending', 'held'],
  payment_reversal: ['pending', 'clearing:9PSB'],
}

/** Inserts postings by one statement; without any, that of a payment. */
const post = (transactionId: string, ...postings: Record<string, unknown>[]) => {
  const rows = (postings.length > 0 ? postings : [{}]).map((overrides) => {
    const kind = (overrides['kind'] ?? 'payment') as PostingKind
    const [debit, credit] = SIDES[kind] ?? SIDES.payment ?? []
    const business = kind.startsWith('share') ? `biz_of_${kind.slice(0, 7)}` : 'biz_1'
    return { kind, debit, credit, amount: amountOf(kind), business, ...overrides }
  })
  return [
    `insert into ledger_posting (transaction_id, business_id, live, kind, debit_account, credit_account,
        amount_minor, created_at, settlement_id)
      select $1, business, true, kind, debit, credit, amount, now(),
        case when kind in ('settlement', 'fee', 'split') or kind like 'share__' then coalesce(settlement, 'stl_1') end
      from jsonb_to_recordset($2)
        as p(kind text, debit text, credit text, amount bigint, business text, settlement text)`,
    [transactionId, JSON.stringify(rows)],
  ] as [string, unknown[]]
}

/** Five shares of 10 make a split of 50. */
function amountOf(kind: string): number {
  if (kind.startsWith('fee')) return 7
  if (kind.startsWith('share')) return 10
  return kind.startsWith('split') ? 50 : 500
}

const postAll = (id: string, kinds: readonly PostingKind[]) =>
  post(id, ...kinds.map((kind) => ({ kind })))

/** Inserts a transaction in a state, with its postings. */
async function insertAt({ status, settled }: LedgerState) {
  const id = await insert(status === 'REVERSED' || settled ? 'SUCCESS' : status)
  if (status === 'SUCCESS' || status === 'REVERSED') await sql(...post(id))
  if (settled) await sql(...postAll(id, SETTLED))
  if (status === 'REVERSED') {
    await sql(...postAll(id, settled ? REVERSED_SETTLED : REVERSED))
    await sql("update transaction set status = 'REVERSED' where id = $1", [id])
  }
  return id
}

describe('the database allows only the legal transitions of a transaction', () => {
  const states: readonly LedgerState[] = [
    ...TRANSACTION_STATUSES.map((status) => ({ status, settled: false })),
    { status: 'SUCCESS', settled: true },
    { status: 'REVERSED', settled: true },
  ]
  const name = ({ status, settled }: LedgerState) => (settled ? `${status}, settled` : status)
  const pairs = states.flatMap((from) =>
    states.filter((to) => to !== from).map((to) => [name(from), name(to), from, to] as const),
  )
  const setStatus = (id: string, status: TransactionStatus) =>
    sql('update transaction set status = $2 where id = $1', [id, status])
  const rejected = { code: expect.stringMatching(/^23/) }

  /** Makes the postings, if any, and what else leads to the state. */
  async function change(
    id: string,
    from: LedgerState,
    to: LedgerState,
    postings: readonly Record<string, unknown>[],
  ) {
    if (postings.length > 0) await sql(...post(id, ...postings))
    if (from.settled && !to.settled) {
      await sql('delete from ledger_posting where transaction_id = $1', [id])
    }
    if (to.status !== from.status) await setStatus(id, to.status)
  }

  test.each(pairs)('%s → %s', async (_from, _to, from, to) => {
    const id = await insertAt(from)
    const transition = TRANSITIONS.find(
      (each) => name(each.from) === name(from) && name(each.to) === name(to),
    )
    const settles = to.settled && !from.settled ? SETTLED : []
    const postings = (transition?.postings ?? settles).map((kind) => ({ kind }))
    if (transition !== undefined) await change(id, from, to, postings)
    else await expect(change(id, from, to, postings)).rejects.toMatchObject(rejected)
  })

  test('a failed transaction stays failed, even with the posting of a payment', async () => {
    const id = await insertAt({ status: 'FAILED', settled: false })
    await sql(...post(id))
    await expect(setStatus(id, 'SUCCESS')).rejects.toThrow(
      'a transaction cannot go from FAILED to SUCCESS',
    )
  })

  describe.each(
    TRANSITIONS.flatMap((transition) =>
      transition.postings.map((kind) => [kind, transition] as const),
    ),
  )('rejects a transition in which %s', (wrong, { from, to, postings }) => {
    // A zero fee has no posting, so a missing fee is legal. Its reversal is required if it exists.
    test('has no posting', async () => {
      if (wrong === 'fee') return
      const id = await insertAt(from)
      const others = postings.filter((kind) => kind !== wrong).map((kind) => ({ kind }))
      await expect(change(id, from, to, others)).rejects.toMatchObject(rejected)
    })

    test('has another amount', async () => {
      const id = await insertAt(from)
      const amount = wrong === 'fee' ? 501 : 499
      const rows = postings.map((kind) => ({ kind, ...(kind === wrong && { amount }) }))
      await expect(change(id, from, to, rows)).rejects.toMatchObject(rejected)
    })
  })

  test('rejects an unknown status', async () => {
    await expect(insert('DONE' as TransactionStatus)).rejects.toMatchObject({ code: '23514' })
  })
})

describe('the database does not allow changes to a recorded payment', () => {
  test.each([
    ['amount_minor', 501],
    ['session_id', 'other'],
    ['bank', 'PALMPAY'],
    ['account_id', 'acc_2'],
    ['business_id', 'biz_2'],
    ['id', 'txn_other'],
    ['recorded_by', 'token:tok_other'],
  ])('rejects a change of its %s', async (column, value) => {
    const id = await insert('SUCCESS')
    await refuses(`update transaction set ${column} = $2 where id = $1`, [id, value])
  })

  test('rejects deleting one or truncating the table', async () => {
    const id = await insert('SUCCESS')
    await refuses('delete from transaction where id = $1', [id])
    await refuses('truncate transaction cascade')
    await refuses('delete from account where id = $1', ['acc_1'])
  })

  test('rejects a duplicate session, a non-positive amount and an unknown account', async () => {
    await insert('SUCCESS', { session_id: 'taken' })
    const again = (overrides: Record<string, unknown>) =>
      expect(insert('SUCCESS', overrides)).rejects.toMatchObject({
        code: expect.stringMatching(/^23/),
      })
    await again({ session_id: 'taken' })
    await again({ amount_minor: 0 })
    await again({ amount_minor: -1 })
    await again({ account_id: 'acc_unknown' })
    await insert('SUCCESS', { session_id: 'taken', bank: 'PALMPAY' })
  })
})

describe('the database allows the settlement of a successful transaction once', () => {
  const settled = SETTLED.map((kind) => ({ kind }))

  test('rejects a second one', async () => {
    const id = await insertAt({ status: 'SUCCESS', settled: true })
    await refuses(...postAll(id, ['settlement']))
  })

  test('rejects a fee without its settlement, also later', async () => {
    const id = await insertAt({ status: 'SUCCESS', settled: false })
    await refuses(...postAll(id, ['fee']))
    await refuses(...postAll(id, ['split', 'share_1', 'share_2', 'share_3', 'share_4', 'share_5']))
    await sql(...postAll(id, ['settlement']))
    await refuses(...postAll(id, ['fee']))
  })

  test.each<[string, Record<string, unknown>]>([
    ['without a share', { kind: 'share_1', drop: true }],
    ['with a share of the owner', { kind: 'share_1', business: 'biz_1' }],
    ['with a split of another business', { kind: 'split', business: 'biz_2' }],
    ['with a share by another settlement', { kind: 'share_1', settlement: 'stl_2' }],
    ['with shares of more than is left', { kind: 'fee', amount: 451 }],
  ])('rejects a split %s', async (_what, { kind, drop, ...overrides }) => {
    const id = await insertAt({ status: 'SUCCESS', settled: false })
    const rows = SETTLED.filter((each) => drop !== true || each !== kind)
    const wrong = rows.map((each) => ({ kind: each, ...(each === kind && overrides) }))
    await refuses(...post(id, ...wrong))
    await sql(...post(id, ...SETTLED.map((each) => ({ kind: each }))))
  })

  test('rejects a share that is added later, and one that another business gives back', async () => {
    const id = await insertAt({ status: 'SUCCESS', settled: false })
    const rows = SETTLED.filter((kind) => kind !== 'share_5')
    await sql(
      ...post(id, ...rows.map((kind) => ({ kind, ...(kind === 'split' && { amount: 40 }) }))),
    )
    await refuses(...postAll(id, ['share_5']))
    const kinds = REVERSED_SETTLED.filter((kind) => kind !== 'share_5_reversal')
    const given = kinds.map((kind) => ({
      kind,
      ...(kind === 'split_reversal' && { amount: 40 }),
      ...(kind === 'share_1_reversal' && { business: 'biz_of_share_2' }),
    }))
    await sql(...post(id, ...given))
    await refuses("update transaction set status = 'REVERSED' where id = $1", [id])
  })

  test('rejects one of a payment without its posting, with a reversal, or for another business', async () => {
    await refuses(...post(await insert('SUCCESS'), ...settled))
    const reversed = await insertAt({ status: 'SUCCESS', settled: false })
    await sql(...postAll(reversed, REVERSED))
    await refuses(...post(reversed, ...settled))
    const id = await insertAt({ status: 'SUCCESS', settled: false })
    await refuses(...post(id, ...settled.map((row) => ({ ...row, business: 'biz_2' }))))
  })

  test.each(['settlement', 'reversal'])(
    'lets a %s and what it contradicts exclude each other, whatever is committed first',
    async (first) => {
      const id = await insertAt({ status: 'SUCCESS', settled: false })
      const reverse = async (client: Queryable) => {
        await client.query(...postAll(id, REVERSED))
        await client.query("update transaction set status = 'REVERSED' where id = $1", [id])
      }
      const settle = async (client: Queryable) => {
        await client.query(...post(id, ...settled))
      }
      const [one, other] = first === 'settlement' ? [settle, reverse] : [reverse, settle]
      const { durablePool } = db.database
      const second = await inTransaction(durablePool, async (client) => {
        await one(client)
        const waiting = inTransaction(durablePool, other)
        waiting.catch(() => undefined)
        await expect.poll(() => lockWaits(durablePool, 'advisory')).toBe(1)
        return { waiting }
      })
      await expect(second.waiting).rejects.toMatchObject({ code: expect.stringMatching(/^23/) })
    },
  )
})

describe('the database holds a payment until it is accepted', () => {
  const held = { kind: 'payment', credit: 'held' }
  const settled = SETTLED.map((kind) => ({ kind }))

  async function insertHeld(variance = 'UNDERPAID') {
    const id = await insert('SUCCESS')
    await sql(...post(id, held))
    await sql(
      `insert into payment_variance (transaction_id, business_id, live, account_id, variance, hold, is_use)
        values ($1, 'biz_1', true, 'acc_1', $2, 'HELD', false)`,
      [id, variance],
    )
    return id
  }

  test('rejects its settlement before, and allows it after', async () => {
    const id = await insertHeld()
    await refuses(...post(id, ...settled))
    await sql(...postAll(id, ['acceptance']))
    await refuses(...postAll(id, ['acceptance']))
    await sql(...post(id, ...settled))
  })

  test('rejects an acceptance of a payment that is not held, of a part, and for another business', async () => {
    await refuses(...postAll(await insertAt({ status: 'SUCCESS', settled: false }), ['acceptance']))
    const id = await insertHeld()
    await refuses(...post(id, { kind: 'acceptance', amount: 499 }))
    await refuses(...post(id, { kind: 'acceptance', business: 'biz_2' }))
    await refuses(...post(await insert('PENDING'), { kind: 'acceptance' }))
  })

  test('rejects a reversal that leaves the acceptance', async () => {
    const id = await insertHeld()
    await sql(...postAll(id, ['acceptance']))
    const reverse = "update transaction set status = 'REVERSED' where id = $1"
    await sql(...post(id, { kind: 'payment_reversal', debit: 'held' }))
    await refuses(reverse, [id])
    await sql(...postAll(id, ['acceptance_reversal']))
    await sql(reverse, [id])
  })

  test.each([
    ['ACCEPTED', 'RETURNED'],
    ['ACCEPTED', 'HELD'],
    ['RETURN_REQUESTED', 'ACCEPTED'],
    ['RETURNED', 'ACCEPTED'],
  ])('rejects the transition from %s to %s', async (from, to) => {
    const id = await insertHeld()
    const move = `update payment_variance set hold = $2,
      decided_at = case when $2 = 'HELD' then null else now() end where transaction_id = $1`
    await sql(move, [id, from])
    await refuses(move, [id, to])
  })

  test('rejects a second use of an account, another variance, and deleting one', async () => {
    const use = `update payment_variance set hold = 'ACCEPTED', decided_at = now(), is_use = true
      where transaction_id = $1`
    await sql(use, [await insertHeld()])
    const id = await insertHeld()
    await refuses(use, [id])
    await refuses(
      "update payment_variance set variance = 'NONE', hold = null where transaction_id = $1",
      [id],
    )
    await refuses('delete from payment_variance where transaction_id = $1', [id])
  })
})

describe('the database keeps one transaction for each session', () => {
  const addSession = (session: string, id: string) =>
    sql(
      "insert into payment_session (session_id, bank, live, transaction_id) values ($1, '9PSB', true, $2)",
      [session, id],
    )
  test('rejects a transaction whose session is unknown or that of another', async () => {
    const add = `insert into transaction (id, live, business_id, account_id, bank, session_id, amount_minor,
        status, paid_at, created_at, payer_name, payer_account_number, payer_bank_code, payer_bank_name,
        narration, recorded_by)
      values ($2, true, 'biz_1', 'acc_1', '9PSB', $1, 500, 'SUCCESS', now(), now(), '', '', '', '', '',
        'notification')`
    await refuses(add, ['missing', 'txn_without'])
    await addSession('first', 'txn_first')
    await refuses(add, ['first', 'txn_second'])
    await sql(add, ['first', 'txn_first'])
  })

  test('rejects changing or removing the session of a transaction', async () => {
    await insert('SUCCESS')
    await refuses("update payment_session set transaction_id = 'txn_other'")
    await refuses('delete from payment_session')
    await refuses('truncate payment_session')
  })
})

describe('the database protects the ledger', () => {
  test.each([
    ['with a zero amount', { amount: 0 }],
    ['with a negative amount', { amount: -500 }],
    ['from an account to itself', { credit: 'clearing:9PSB' }],
    ['between accounts that its kind does not allow', { credit: 'available' }],
    ['with debit and credit swapped', { debit: 'pending', credit: 'clearing:9PSB' }],
    ['of an unknown kind', { kind: 'gift' }],
  ])('rejects a posting %s', async (_what, overrides) => {
    await refuses(...post(await insert('SUCCESS'), overrides))
  })

  test('rejects a posting, a reversal and a conflict of an unknown transaction', async () => {
    await refuses(...post('txn_unknown'))
    await refuses("insert into reversal values ('txn_unknown', 'x', now())")
    await refuses("insert into payment_conflict values ('txn_unknown', '1', 1, 'SUCCESS', now())")
  })

  test('rejects a second posting of the same kind for a transaction', async () => {
    const id = await insert('SUCCESS')
    await sql(...post(id))
    await refuses(...post(id))
    await refuses(...post(id, { amount: 1 }))
  })

  test('rejects changing or deleting a posting', async () => {
    const id = await insert('SUCCESS')
    await sql(...post(id))
    await refuses('update ledger_posting set amount_minor = 1 where transaction_id = $1', [id])
    await refuses('delete from ledger_posting where transaction_id = $1', [id])
    await refuses('delete from ledger_posting')
    await refuses('truncate ledger_posting')
  })
})

describe('the database protects accounts', () => {
  test.each([
    ["update account set bank = 'GTB' where id = 'acc_1'"],
    ["update account set status = 'OPEN' where id = 'acc_1'"],
    ["update account set account_number = null where id = 'acc_1'"],
    ["update account set account_name = null where id = 'acc_1'"],
    ["update account set account_number = '0000000001' where id = 'acc_2'"],
    ["update account set reference = 'R-1' where id = 'acc_2'"],
    ["update account set business_id = 'biz_unknown' where id = 'acc_1'"],
    ["update account set business_id = 'biz_1' where id = 'acc_2'"],
    ["update account set id = 'acc_3' where id = 'acc_2'"],
    ["delete from account where id = 'acc_2'"],
    ['truncate account cascade'],
  ])('rejects %s', (text) => refuses(text))
})
