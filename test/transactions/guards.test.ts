import { beforeAll, describe, expect, test } from 'vitest'
import {
  type LedgerState,
  type PostingKind,
  TRANSITIONS,
} from '../../src/transactions/ledger/ledger.ts'
import { TRANSACTION_STATUSES, type TransactionStatus } from '../../src/transactions/transaction.ts'
import { useDatabase } from '../support/database.ts'

const db = useDatabase()

const sql = (text: string, values: unknown[] = []) => db.database.pool.query(text, values)

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
    `insert into transaction (id, live, business_id, account_id, bank, session_id, amount_minor, status,
        paid_at, created_at, payer_name, payer_account_number, payer_bank_code, payer_bank_name,
        narration, recorded_by)
      values ($1, true, $2, $3, $4, $5, $6, $7, now(), now(), '', '', '', '', '', 'notification')`,
    Object.values(row),
  )
  return row.id
}

const SIDES: Readonly<Record<PostingKind, readonly [debit: string, credit: string]>> = {
  payment: ['clearing:9PSB', 'pending'],
  settlement: ['pending', 'available'],
  fee: ['available', 'fees'],
  fee_reversal: ['fees', 'available'],
  settlement_reversal: ['available', 'pending'],
  payment_reversal: ['pending', 'clearing:9PSB'],
}

const post = (transactionId: string, overrides: Record<string, unknown> = {}) => {
  const kind = (overrides['kind'] ?? 'payment') as PostingKind
  const [debit, credit] = SIDES[kind] ?? SIDES.payment
  const row = { kind, debit, credit, amount: kind.startsWith('fee') ? 7 : 500, ...overrides }
  return [
    `insert into ledger_posting (transaction_id, business_id, live, kind, debit_account, credit_account,
        amount_minor, created_at, settlement_id)
      values ($1, 'biz_1', true, $2, $3, $4, $5, now(),
        case when $2::text in ('settlement', 'fee') then 'stl_1' end)`,
    [transactionId, ...Object.values(row)],
  ] as [string, unknown[]]
}

/** Inserts a transaction in a state, with its postings. */
async function insertAt({ status, settled }: LedgerState) {
  const id = await insert(status === 'REVERSED' || settled ? 'SUCCESS' : status)
  if (status === 'SUCCESS' || status === 'REVERSED') await sql(...post(id))
  if (settled) {
    for (const kind of ['settlement', 'fee']) await sql(...post(id, { kind }))
    await sql('update transaction set settled_at = now() where id = $1', [id])
  }
  if (status === 'REVERSED') {
    for (const kind of settled ? REVERSED_SETTLED : REVERSED) await sql(...post(id, { kind }))
    await sql("update transaction set status = 'REVERSED' where id = $1", [id])
  }
  return id
}

const REVERSED = ['payment_reversal']
const REVERSED_SETTLED = ['fee_reversal', 'settlement_reversal', 'payment_reversal']

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
  const change = (id: string, to: LedgerState) =>
    [
      `update transaction set status = $2,
        settled_at = case when $3 then coalesce(settled_at, now()) end where id = $1`,
      [id, to.status, to.settled],
    ] as [string, unknown[]]

  test.each(pairs)('%s → %s', async (_from, _to, from, to) => {
    const id = await insertAt(from)
    const transition = TRANSITIONS.find(
      (each) => name(each.from) === name(from) && name(each.to) === name(to),
    )
    for (const kind of transition?.postings ?? []) await sql(...post(id, { kind }))
    if (transition !== undefined) await sql(...change(id, to))
    else await refuses(...change(id, to))
  })

  test('a failed transaction stays failed, even with the posting of a payment', async () => {
    const id = await insertAt({ status: 'FAILED', settled: false })
    await sql(...post(id))
    await expect(sql(...change(id, { status: 'SUCCESS', settled: false }))).rejects.toThrow(
      'a transaction cannot go from FAILED to SUCCESS',
    )
  })

  test.each(
    TRANSITIONS.flatMap((transition) =>
      transition.postings.map((kind) => [kind, transition] as const),
    ),
  )('rejects a transition without its posting: %s', async (missing, { from, to, postings }) => {
    // A zero fee has no posting, so a missing fee is legal. Its reversal is required if it
    // exists.
    if (missing === 'fee') return
    const id = await insertAt(from)
    for (const kind of postings) if (kind !== missing) await sql(...post(id, { kind }))
    await refuses(...change(id, to))
  })

  test.each(
    TRANSITIONS.flatMap((transition) =>
      transition.postings.map((kind) => [kind, transition] as const),
    ),
  )(
    'rejects a transition with another amount in its posting: %s',
    async (wrong, { from, to, postings }) => {
      const id = await insertAt(from)
      const amount = wrong === 'fee' ? 501 : 499
      for (const kind of postings) {
        await sql(...post(id, { kind, ...(kind === wrong && { amount }) }))
      }
      await refuses(...change(id, to))
    },
  )

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
  test('rejects changing or removing the settlement time', async () => {
    const id = await insertAt({ status: 'SUCCESS', settled: true })
    await refuses("update transaction set settled_at = now() + interval '1 s' where id = $1", [id])
    await refuses('update transaction set settled_at = null where id = $1', [id])
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

  test('rejects a posting of an unknown transaction', () => refuses(...post('txn_unknown')))

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
