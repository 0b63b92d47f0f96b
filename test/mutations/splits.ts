// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the texts are source code
import { inFile, MODEL } from './mutation.ts'

const MIGRATION = 'src/postgres/migrations/Migration20261122000000_initial.ts'

const RULE = 'test/settlement/shares/rule.test.ts'
const SETTLE = 'test/settlement/shares/settle.test.ts'
const CHANGE = 'test/settlement/shares/change.test.ts'
const REVERSE = 'test/settlement/shares/reverse.test.ts'
const ACCOUNTS = 'test/accounts/splits.test.ts'

const shares = inFile(MIGRATION, RULE)
const guard = inFile(MIGRATION, 'test/transactions/guards.test.ts')
const batch = inFile('src/settlement/runs/batch-store.ts', SETTLE, ...MODEL)
const run = inFile('src/settlement/runs/run-settlement.ts', SETTLE, ...MODEL)
const balance = inFile('src/settlement/balances/store.ts', SETTLE, ...MODEL)
const settlement = inFile('src/settlement/settlement.ts', SETTLE, ...MODEL)
const reverse = inFile('src/transactions/reverse-store.ts', REVERSE, ...MODEL)
const money = inFile('src/events/balance-changes/balance-changes.sql.ts', REVERSE, ...MODEL)
const reversal = inFile('src/transactions/reverse-transaction.ts', REVERSE, ...MODEL)
const events = inFile('src/transactions/shares/share-store.ts', REVERSE, ...MODEL)
const change = inFile('src/transactions/shares/set-split.ts', CHANGE, ...MODEL)
const verify = inFile('src/transactions/ledger/verify-transactions.ts', REVERSE, ...MODEL)
const verifySettlement = inFile('src/settlement/verification/store.ts', REVERSE, ...MODEL)
const statement = inFile('src/settlement/statements/store.ts', REVERSE, ...MODEL)
const approvals = inFile('src/accounts/splits/approvals.ts', ACCOUNTS)
const accountRpc = inFile('src/accounts/rpc.ts', ACCOUNTS)
const check = inFile('src/accounts/splits/check-split.ts', ACCOUNTS)
const rules = inFile('src/accounts/splits/split.ts', ACCOUNTS)

export const SPLITS = [
  shares(
    'a share is more than what is left',
    '(least(w.up_to, w.rest) - w.up_to + w.wanted)::bigint',
    'w.wanted::bigint',
  ),
  shares(
    'a shared fee is borne by the owner',
    "case v.fee_bearer when 'SHARED' then amount - fee else amount end",
    'amount',
  ),
  shares(
    'shares are taken from the fee',
    'amount - fee as rest, x.wanted',
    'amount as rest, x.wanted',
  ),
  shares(
    'a share is rounded to the nearest kobo',
    'div(s.base::numeric * r.basis_points, 10000)',
    'round(s.base::numeric * r.basis_points / 10000)',
  ),
  shares(
    'the first split of an account is valid for ever',
    'order by v.valid_from desc',
    'order by v.valid_from',
  ),
  shares(
    'shares are taken from the last recipient on',
    'over (order by r.number)',
    'over (order by r.number desc)',
  ),
  guard('a split is more than its shares', ' or split <> shares or payment', ' or payment'),
  guard(
    'the owner gets a share of its own',
    '      or t.business_id = any (recipients) or',
    '      or',
  ),
  guard(
    'a reversal leaves the shares',
    "      or shares_reversal is distinct from case when n.status = 'REVERSED' then shares end)",
    ')',
  ),
  batch(
    'the shares are not taken from the owner',
    "union all select id, 'split', $2::text, 'available', 'splits', sum(share_minor) from share group by id",
    '',
  ),
  batch(
    'the shares are postings of the owner',
    "select id, 'share_' || number, business_id,",
    "select id, 'share_' || number, $2::text,",
  ),
  batch('a settlement states no splits', 'splits_minor + total.splits', 'splits_minor'),
  run(
    'recipients have no event of their shares',
    'await appendShareEvents(client, change, shares)',
    'void change',
  ),
  balance(
    'the owner has the shares while a settlement runs',
    'gross_minor - fees_minor - splits_minor, fees_minor',
    'gross_minor - fees_minor, fees_minor',
  ),
  settlement(
    'the event of a settlement adds the shares to the balance of the owner',
    'grossMinor - feesMinor - splitsMinor',
    'grossMinor - feesMinor',
  ),
  reverse(
    'a reversed share is a posting of the owner',
    "business_id: 'p.business_id'",
    "business_id: 'r.business_id'",
  ),
  reverse(
    'the owner gives back the shares of others',
    'side where business_id = (select business_id from reversed) group by account',
    'side group by account',
  ),
  reverse(
    'a reversal of a payment of which others got all is missing in the statement',
    'select bool_and(amount_minor = 0) from changes',
    'select false from changes',
  ),
  money(
    'an event that has no number yet is not counted if its changes add up to zero',
    '<> (0, 0, 0) or o.nets_zero)',
    '<> (0, 0, 0))',
  ),
  reversal(
    'recipients keep the shares of a reversed payment',
    'if (settled) await reverseShares',
    'if (!settled) await reverseShares',
  ),
  events(
    'recipients give back more than they got',
    ' and settlement_id is not null order by kind',
    ' order by kind',
  ),
  change(
    'a settled payment gets another split',
    '        1 + (await findLastRecorded(client, id, nowMs)),\n',
    '',
  ),
  change(
    'a change of a split does not wait for a settlement',
    "      await client.query(`select ${lockSettled('settlement', '$1', '$2')}`, [businessId, live])\n",
    '',
  ),
  verify('a changed share is not found', 'when split <> shares then', 'when false then'),
  verifySettlement(
    'a share of another business is not found',
    'when gross is not null and shares is distinct from due_shares',
    'when false',
  ),
  statement(
    'a recipient sees the session of a payment of another business',
    ' and t.business_id = $1)',
    ')',
  ),
  check('a restricted token names any business', 'allowed?.has(id) ?? true', 'true'),
  check(
    'recipients need no approval',
    'NEEDS_APPROVAL: ReadonlySet<string> = new Set()',
    'NEEDS_APPROVAL: ReadonlySet<string> | undefined = undefined',
  ),
  approvals(
    'an approval is of every business',
    'where business_id = $1 and recipient_id',
    'where business_id <> $1 and recipient_id',
  ),
  accountRpc(
    'a token of payments:write opens accounts with a split',
    "requireScope(context, 'splits:write', 'split')",
    "requireScope(context, 'payments:write', 'split')",
  ),
  rules('percentages add up to more than 100 %', 'points <= ALL_POINTS &&', 'false &&'),
  rules(
    'a business is a recipient of its own account',
    'if (businessId === ownerId) {',
    'if (businessId === "") {',
  ),
]
