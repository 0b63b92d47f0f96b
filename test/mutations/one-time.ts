// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the texts are source code
import { inFile, MODEL } from './mutation.ts'

const RULE = 'test/transactions/variance/variance.test.ts'
const RECORD = 'test/transactions/variance/record.test.ts'
const DECIDE = 'test/transactions/variance/decide.test.ts'
const ACCOUNTS = 'test/accounts/one-time.test.ts'

const rule = inFile('src/transactions/variance/variance.ts', RULE)
const rounds = inFile('src/transactions/variance/decide.ts', RULE, RECORD, ...MODEL)
const record = inFile('src/transactions/variance/record-store.ts', RECORD, ...MODEL)
const held = inFile('src/transactions/variance/held-store.ts', DECIDE, ...MODEL)
const decide = inFile('src/transactions/variance/decide-held.ts', DECIDE, ...MODEL)
const reverse = inFile('src/transactions/reverse-store.ts', DECIDE, ...MODEL)
const lock = inFile('src/accounts/terms/one-time-store.ts', RECORD, ACCOUNTS)
const ends = inFile('src/accounts/terms/end-accounts.ts', ACCOUNTS)
const endStore = inFile('src/accounts/terms/end-store.ts', ACCOUNTS)
const names = inFile('src/accounts/terms/payer-name.ts', RULE)
const terms = inFile('src/accounts/terms/terms.ts', ACCOUNTS)
const create = inFile('src/accounts/create-account.ts', ACCOUNTS)

export const ONE_TIME = [
  rule(
    'a payment at the moment of the expiry is in time',
    'payment.paidAtMs >= expiresAtMs',
    'payment.paidAtMs > expiresAtMs',
  ),
  inFile('src/transactions/variance/decide.ts', ACCOUNTS)(
    'a payment in time that the bank reports late is EXPIRED',
    'const variance = newVariance(varianceOf(terms, isUsed, payment))',
    "const variance = newVariance(terms.endedAtMs ? 'EXPIRED' : varianceOf(terms, isUsed, payment))",
  ),
  inFile('src/transactions/queries.ts', ...MODEL)(
    'a decision does not see the one that it waited for',
    'from transaction where id = $1\n      for no key update`',
    'from transaction where id = $1`',
  ),
  rule('a stranger may pay the expected amount', 'if (!isAllowed(', 'if (false && !isAllowed('),
  rule(
    'the account number of one bank is that of another',
    'payer.accountNumber === allowed.accountNumber && isSameBank',
    'payer.accountNumber === allowed.accountNumber',
  ),
  names('one common word makes two names alike', 'COMMON_MIN = 2', 'COMMON_MIN = 1'),
  names('a title is a word of a name', ' && !COMMON_WORDS.has(word)', ''),
  rounds(
    'two payments of one batch use up the same account',
    'if (isSingleUse) counts.set(id, round + 1)',
    'if (!isSingleUse) counts.set(id, round + 1)',
  ),
  lock(
    'two payments at once both use up an account',
    ' and one_time order by id for no key update',
    ' and one_time order by id',
  ),
  lock(
    'a used account does not end',
    "end_due_at = case when status = 'ACTIVE' then least(end_due_at, $2) else end_due_at end",
    'end_due_at = end_due_at',
  ),
  record(
    'a held payment is pending',
    "credit_account: \"case when hold is null then 'pending' else 'held' end\"",
    'credit_account: "\'pending\'"',
  ),
  record(
    'the event of a held payment changes the pending balance',
    "pending_minor: 'case when hold is null then amount_minor else 0 end'",
    "pending_minor: 'amount_minor'",
  ),
  held('an accepted payment is not pending', "  pending_minor: 't.amount_minor',\n", ''),
  held(
    'an accepted payment uses up a used account',
    'terms.usedAtMs === undefined',
    'terms !== undefined',
  ),
  decide(
    'accepting twice has two events',
    "if (variance?.hold === 'ACCEPTED') return undefined",
    "if (variance?.hold === 'RETURNED') return undefined",
  ),
  reverse(
    'a returned payment that was never credited is in the statement',
    "'fees')), false)`",
    "'fees')), true)`",
  ),
  reverse(
    'a held payment that is reversed waits for a decision for ever',
    "v.hold in ('HELD', 'RETURN_REQUESTED')",
    "v.hold = 'ACCEPTED'",
  ),
  ends(
    'an account of a bank that does not respond is not closed there',
    "if (result.kind === 'closed') return",
    'if (result.kind) return',
  ),
  endStore(
    'an expired account is open at its bank for ever',
    "end_due_at = case when connector = 'live' then $4::timestamptz end",
    'end_due_at = null',
  ),
  terms(
    'an account with other metadata is taken for the same',
    'Object.entries(metadata ?? {}).sort(([a], [b]) => (a < b ? -1 : 1)),',
    '[],',
  ),
  create(
    'a repeat is refused once its account has expired',
    'const row =\n    served && !refusal',
    'if (refusal) throw refusal\n  const row =\n    served && !refusal',
  ),
]
