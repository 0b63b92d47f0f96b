// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the texts are source code
import { inFile, MODEL } from './mutation.ts'

const MIGRATION = 'src/postgres/migrations/Migration20261122000000_initial.ts'

const RECORD = 'test/transactions/record-payment.test.ts'
const BATCH = 'test/transactions/record-payments.test.ts'

const store = inFile('src/transactions/store.ts', RECORD, 'test/transactions/guards.test.ts')
const reversal = inFile(
  'src/transactions/reverse-store.ts',
  RECORD,
  'test/transactions/guards.test.ts',
)
const final = inFile('src/transactions/store.ts', 'test/transactions/concurrency.test.ts', ...MODEL)
const modes = inFile('src/transactions/store.ts', 'test/transactions/modes.test.ts')
const order = inFile('src/transactions/store.ts', BATCH)
const calls = inFile('src/transactions/record-payments.ts', BATCH)
const batch = inFile('src/transactions/record-payment.ts', RECORD, BATCH)
const unrecorded = inFile(
  'src/transactions/resolve-unrecorded.ts',
  RECORD,
  'test/transactions/concurrency.test.ts',
  'test/transactions/modes.test.ts',
  ...MODEL,
)
const rule = inFile(
  'src/transactions/transaction.ts',
  'test/transactions/classify-repeat.test.ts',
  RECORD,
)
const queries = inFile(
  'src/transactions/queries.ts',
  BATCH,
  'test/transactions/modes.test.ts',
  RECORD,
)
const reverse = inFile(
  'src/transactions/reverse-transaction.ts',
  'test/transactions/guards.test.ts',
  RECORD,
)
const unmatched = inFile('src/transactions/unmatched/insert-unmatched.ts', RECORD)
const postings = inFile('src/transactions/ledger/append-postings.ts', RECORD)
const guard = inFile(MIGRATION, 'test/transactions/guards.test.ts')
const conflict = inFile('src/transactions/conflicts/record-conflict.ts', RECORD)

export const TRANSACTIONS = [
  store(
    'a payment into an account that is not open is recorded',
    "where ${isAccountOpen('i.account_id', 'i.live')}\n          and not",
    'where not',
  ),
  store(
    'a payment is not recorded because one of its session was returned at another bank',
    'u.session_id = i.session_id and u.bank = i.bank and',
    'u.session_id = i.session_id and',
  ),
  store(
    'a payment that was recorded as pending is credited',
    "from input where status = 'SUCCESS' and (id in (select id from recorded))",
    "from input where status <> 'FAILED' and (id in (select id from recorded))",
  ),
  store(
    'a payment that fails is credited',
    '${appendPostings(posting, successful)}',
    "${appendPostings(posting, 'from finalized')}",
  ),
  store(
    'a payment that fails has an event',
    '${appendEvents(event, successful)}',
    "${appendEvents(event, 'from finalized')}",
  ),
  order(
    'any of the reports in a statement is recorded',
    'order by session_id, bank, live, at`',
    'order by session_id, bank, live, at desc`',
  ),
  order(
    'any of the reports in a statement finalizes a payment',
    'order by id, at\n',
    'order by id, at desc\n',
  ),
  calls(
    'the payments of a call do not wait for those before them',
    'before.length === 0 ?',
    'before.length >= 0 ?',
  ),
  calls(
    'the payments into a single-use account do not wait for each other',
    "if (useKey !== '') turns.set(useKey, result)",
    '',
  ),
  final(
    'a final transaction is finalized again',
    "where id = any ($1::text[]) and status = 'PENDING'\n        order by id for no key update",
    'where id = any ($1::text[])\n        order by id for no key update',
  ),
  store(
    'the event of a payment does not change the balance',
    "pending_minor: 'amount_minor',\n}",
    "pending_minor: '0',\n}",
  ),
  reversal(
    'a reversal repeats the posting that it undoes',
    "debit_account: 'p.credit_account',\n  credit_account: 'p.debit_account'",
    "debit_account: 'p.debit_account',\n  credit_account: 'p.credit_account'",
  ),
  modes(
    'test money that arrives is taken for money that was returned',
    'and not (i.live and exists',
    'and not (exists',
  ),
  batch(
    'a conflict is not stored for manual review',
    "if (result.outcome === 'CONFLICT' && result.transaction)",
    "if (result.outcome !== 'CONFLICT' && result.transaction)",
  ),
  batch(
    'a payment that was not inserted is acknowledged as recorded',
    'if (entry.row && recorded.has(entry.row.id))',
    'if (entry.row)',
  ),
  unrecorded(
    'a payment whose account is not open is lost',
    'if (unmatched.length > 0) {',
    'if (unmatched.length > 1_000) {',
  ),
  unrecorded(
    'a final report of a pending payment is lost',
    'if (pending.length > 0) await finalizePending',
    'if (pending.length > 1_000) await finalizePending',
  ),
  unrecorded(
    'a test transaction hides a real payment',
    'return known || account.accountNumber === payment.accountNumber',
    'return true',
  ),
  unrecorded(
    'simulated money is stored as unmatched',
    'else if (entry.payment.live === false) entry',
    'else if (entry.payment.live === null) entry',
  ),
  unrecorded(
    'two final reports at once are both acknowledged as recorded',
    "if (finalized.has(rows[index]?.eventId ?? ''))",
    'if (finalized !== undefined)',
  ),
  unrecorded(
    'a conflict is acknowledged as a duplicate',
    "repeat === 'conflict' ? 'CONFLICT' : 'DUPLICATE'",
    "repeat === 'conflict' ? 'DUPLICATE' : 'DUPLICATE'",
  ),
  rule(
    'another amount for a session is a duplicate',
    "if (recorded.amountMinor !== payment.amountMinor) return 'conflict'\n",
    '',
  ),
  rule(
    'another account for a session is a duplicate',
    "if (recorded.accountNumber !== payment.accountNumber) return 'conflict'\n",
    '',
  ),
  rule(
    'a failed payment becomes successful',
    "if (recorded.status === 'PENDING') return 'final'",
    "if (recorded.status !== 'SUCCESS') return 'final'",
  ),
  rule(
    'a late pending report is a conflict',
    " || payment.status === 'PENDING') return 'duplicate'",
    ") return 'duplicate'",
  ),
  rule(
    'a repeat after a reversal is a conflict',
    "if (recorded.status === 'REVERSED' && payment.status === 'SUCCESS') return 'duplicate'\n",
    '',
  ),
  queries(
    'a business sees the transactions of another',
    "'t.business_id = k.business_id',",
    "'true',",
  ),
  queries(
    'a test key sees live transactions',
    "'s.session_id = k.session_id and s.live = coalesce(k.live, s.live)'",
    "'s.session_id = k.session_id and s.live is not null'",
  ),
  queries(
    'a test transaction hides the live one',
    'order by t.live, t.id`',
    'order by t.live desc, t.id`',
  ),
  queries(
    'a session at another bank is taken for this one',
    's.session_id = k.session_id and s.bank = k.bank and',
    's.session_id = k.session_id and',
  ),
  reverse(
    'a payment that failed is reversed',
    "if (!isLegalTransition(transaction, { status: 'REVERSED', settled }))",
    "if (!isLegalTransition({ status: 'SUCCESS', settled }, { status: 'REVERSED', settled }))",
    'The statement of the reversal and a trigger of the database refuse it too, and it stays an error.',
  ),
  unmatched(
    'a repeated unmatched payment has a second event',
    "'from input join inserted using (id)'",
    "'from input'",
  ),
  postings(
    'a payment is booked the wrong way round',
    'debit_account: "\'clearing:\' || bank",\n  credit_account: "\'pending\'"',
    'debit_account: "\'pending\'",\n  credit_account: "\'clearing:\' || bank"',
  ),
  guard(
    'a recorded amount can be changed',
    'if (new.id, new.business_id, new.account_id, new.live, new.bank, new.session_id, new.amount_minor)\n      is distinct from (old.id, old.business_id, old.account_id, old.live, old.bank, old.session_id, old.amount_minor)',
    'if (new.id, new.business_id, new.account_id, new.live, new.bank, new.session_id)\n      is distinct from (old.id, old.business_id, old.account_id, old.live, old.bank, old.session_id)',
  ),
  guard(
    'a failed transaction can become successful',
    "(old.status = 'PENDING' and new.status in ('SUCCESS', 'FAILED'))",
    "(old.status in ('PENDING', 'FAILED') and new.status in ('SUCCESS', 'FAILED'))",
  ),
  guard(
    'a transaction that is not successful can be settled',
    "where t.status <> 'SUCCESS' or (owners",
    'where (owners',
    'Only a successful transaction has a posting of its amount and no reversal, which the same condition asks for.',
  ),
  guard(
    'a transition without its postings is accepted',
    "payment <> case when n.status in ('SUCCESS', 'REVERSED') then n.amount_minor else 0 end",
    'false',
  ),
  guard(
    'a fee without its settlement is accepted',
    'settlement is distinct from t.amount_minor',
    'settlement <> t.amount_minor',
  ),
  guard(
    'a settlement does not wait for a reversal',
    'perform lock_settled(b.business_id, b.live, false) from (',
    'perform b.business_id from (',
  ),
  guard(
    'a reversal does not wait for a settlement',
    'perform lock_settled(r.business_id, r.live, true) from (',
    'perform r.business_id from (',
  ),
  guard(
    'a transaction without its session is accepted',
    'where parent.transaction_id is distinct from t.id limit 1',
    'where false limit 1',
  ),
  guard(
    'a reversal without the mirror of the payment is accepted',
    "or payment_reversal <> case when n.status = 'REVERSED' then payment else 0 end",
    '',
  ),
  guard(
    'a posting without a transaction is accepted',
    "where parent.found is null limit 1;\n    if found then\n      raise exception 'the transaction",
    "where false limit 1;\n    if found then\n      raise exception 'the transaction",
  ),
  guard(
    'a transaction without an account is accepted',
    "where parent.found is null limit 1;\n    if found then\n      raise exception 'the account",
    "where false limit 1;\n    if found then\n      raise exception 'the account",
  ),
  conflict(
    'a repeated conflict fails',
    '.onConflict((conflicting) => conflicting.doNothing())',
    '',
  ),
]
