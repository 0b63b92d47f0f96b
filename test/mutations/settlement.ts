// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the texts are source code
import { inFile } from './mutation.ts'

const MIGRATION = 'src/postgres/migrations/Migration20261122000000_initial.ts'

const JOB = 'test/settlement/job.test.ts'
const SETTLEMENT = 'test/settlement/settlement.test.ts'
const SEQUENCES = 'test/settlement/sequences.test.ts'

const fee = inFile(MIGRATION, 'test/settlement/fee.test.ts')
const guard = inFile(MIGRATION, JOB, 'test/transactions/guards.test.ts', SEQUENCES)
const batch = inFile('src/settlement/runs/batch-store.ts', JOB, SEQUENCES)
const store = inFile('src/settlement/runs/store.ts', JOB, SEQUENCES)
const due = inFile('src/settlement/runs/due-store.ts', JOB, SETTLEMENT)
const first = inFile('src/settlement/runs/first-unsettled.sql.ts', JOB, SETTLEMENT)
const runs = inFile('src/settlement/runs/advance-settlements.ts', JOB, SETTLEMENT)
const run = inFile('src/settlement/runs/run-settlement.ts', JOB, SETTLEMENT)
const forced = inFile('src/settlement/runs/settle.ts', SETTLEMENT)
const request = inFile('src/settlement/runs/requests-store.ts', JOB, SETTLEMENT)
const schedule = inFile('src/settlement/terms/schedule.ts', 'test/settlement/schedule.test.ts')
const balance = inFile('src/settlement/balances/store.ts', SETTLEMENT, SEQUENCES)
const net = inFile('src/settlement/settlement.ts', JOB, SEQUENCES)
const changes = inFile(
  'src/events/balance-changes/balance-changes.sql.ts',
  SEQUENCES,
  'test/settlement/balance-snapshots.test.ts',
)
const final = inFile('src/transactions/store.ts', JOB)
const mark = inFile('src/transactions/transaction.sql.ts', JOB, SEQUENCES)

export const SETTLEMENT_RULES = [
  forced(
    'a forced settlement misses the payment that was acknowledged just before',
    "if (input.force && input.businessId !== '') {",
    'if (false) {',
  ),
  fee(
    'half a kobo of a fee rounds down',
    'basis_points + 5000, 10000',
    'basis_points + 4999, 10000',
  ),
  fee(
    'less than half a kobo of a fee rounds up',
    'basis_points + 5000, 10000',
    'basis_points + 5001, 10000',
  ),
  fee(
    'a fee exceeds its payment',
    '    amount_minor,\n    case when cap_minor = 0 then amount_minor else cap_minor end,',
    '    case when cap_minor = 0 then null else cap_minor end,',
  ),
  fee(
    'a fee without a maximum is zero',
    'case when cap_minor = 0 then amount_minor else cap_minor end',
    'cap_minor',
  ),
  guard(
    'a completed settlement can be changed',
    "if old.status = 'COMPLETED' then",
    'if false then',
  ),
  guard(
    'the totals of a settlement can decrease',
    'or new.scanned_sequence < old.scanned_sequence or new.gross_minor < old.gross_minor',
    '',
  ),
  batch(
    'a settlement leaves out its first event',
    'and ${log}.business_sequence > $3 and ${log}.business_sequence <= $4`',
    'and ${log}.business_sequence > $3 + 1 and ${log}.business_sequence <= $4`',
  ),
  batch(
    'a settlement goes beyond its range',
    'and ${log}.business_sequence > $3 and ${log}.business_sequence <= $4`',
    'and ${log}.business_sequence > $3 and $4::bigint is not null`',
  ),
  batch(
    'a settlement takes the payments of the other mode',
    '`${log}.business_id = $2 and ${log}.live = $10\n      and ${log}.business_sequence > $3',
    '`${log}.business_id = $2 and $10::boolean is not null\n      and ${log}.business_sequence > $3',
  ),
  batch(
    'a settled payment is not moved to the available balance',
    "select 'settlement' as kind, 'pending' as debit, 'available' as credit",
    "select 'settlement' as kind, 'pending' as debit, 'pending' as credit",
  ),
  batch(
    'a fee is not posted',
    "'available', 'fees', s.fee_minor where s.fee_minor > 0",
    "'available', 'fees', s.fee_minor where false",
  ),
  batch(
    'a settlement ends after its first batch',
    'case when count(*) < $5 then $4::bigint else max(business_sequence) end',
    '$4::bigint',
  ),
  batch(
    'a settlement never ends',
    "status = case when is_full or is_scanned then 'COMPLETED' else s.status end",
    'status = s.status',
  ),
  batch(
    'a full settlement goes on',
    '$11::bigint + total.gross >= ${FULL_MINOR} as is_full',
    'false as is_full',
  ),
  guard(
    'a settlement that is not full may end early',
    'and new.to_sequence = new.scanned_sequence and new.gross_minor >= 2::numeric ^ 62',
    '',
  ),
  batch(
    'the totals of a settlement hold its last batch only',
    'gross_minor = gross_minor + total.gross',
    'gross_minor = greatest(gross_minor, total.gross)',
  ),
  batch(
    'the event of a settlement changes no balance',
    '      -settlement.grossMinor,\n',
    '      0n,\n',
  ),
  net(
    'the event of a settlement adds the fees to the available balance',
    'grossMinor - feesMinor - splitsMinor',
    'grossMinor - splitsMinor',
  ),
  store(
    'a settlement takes payments recorded after its cut-off',
    '\n    and ${event}.occurred_at < $12',
    '\n    and $12::timestamptz is not null',
  ),
  store(
    'a settlement takes payments recorded at its cut-off',
    '${event}.occurred_at < $12',
    '${event}.occurred_at <= $12',
  ),
  store(
    'a settlement begins again at the first event',
    'select coalesce((select to_sequence from last), -(2::numeric ^ 62)::bigint) as at',
    'select -(2::numeric ^ 62)::bigint as at',
  ),
  store(
    'two settlements of a balance run at once',
    "await client.query('select pg_advisory_xact_lock(hashtextextended($1, 0))', [",
    "await client.query('select hashtextextended($1, 0)', [",
    'A unique index of the running settlement and the guard of each transaction refuse the second one.',
  ),
  store(
    'a settlement of the other mode is continued',
    'where business_id = $1 and live = $2 and status',
    'where business_id = $1 and $2::boolean is not null and status',
  ),
  due(
    'a preview counts reversed payments',
    '\n          and ${IS_UNSETTLED}\n      ) unsettled',
    '\n      ) unsettled',
  ),
  due('a preview counts payments that are not due', 'e.occurred_at < $5 as due', 'true as due'),
  due(
    'a preview mixes the modes',
    'where e.business_id = $1 and e.live = $6 and e.kind',
    'where e.business_id = $1 and e.kind',
  ),
  first(
    'payments of another mode start a settlement',
    ' and ${log}.live = ${live}\n',
    ' and ${live} is not null\n',
  ),
  first('a reversed payment starts a settlement', ' and ${IS_UNSETTLED}`', '`'),
  runs(
    'a request settles the other mode',
    '{ live, nowMs, forced }',
    '{ live: !live, nowMs, forced }',
  ),
  runs(
    'a balance that fails holds up the others',
    'if (isRetryable(error) && !isTooSlow) throw error',
    'throw error',
  ),
  runs(
    'a request that is not done is marked as completed',
    "if (progress === 'done') {\n    await completeRequest",
    "if (progress !== 'more') {\n    await completeRequest",
  ),
  run(
    'a settlement without a payment has an event',
    'if (after.transactionCount === 0n) return { state } as const\n',
    '',
  ),
  run(
    'a request takes payments that arrive long after it',
    'input.cutOffAtMs + (input.forced ? CLOCK_SKEW_MAX_MS : 0)',
    'input.cutOffAtMs + (input.forced ? 10 * CLOCK_SKEW_MAX_MS : 0)',
  ),
  request(
    'a request id can be used twice',
    'isCompleted: completedAt !== null',
    'isCompleted: false',
  ),
  schedule('a weekend counts as a working day', 'weekday !== 0 && weekday !== 6 && ', ''),
  schedule('a holiday counts as a working day', ' && !holidays.has(day)', ''),
  schedule(
    'a payment at the cut-off is due a day early',
    'return today <= atMs ? today : today - DAY_MS',
    'return today < atMs ? today : today - DAY_MS',
  ),
  schedule(
    'the day begins at midnight in London',
    'return Math.floor((atMs + LAGOS_OFFSET_MS) / DAY_MS)',
    'return Math.floor(atMs / DAY_MS)',
  ),
  schedule('a payment is due before its day', 'return startOf(day + 1)', 'return startOf(day + 2)'),
  balance(
    'a balance omits what a running settlement has moved',
    "and live = $2 and status = 'RUNNING'",
    "and live = $2 and status = 'NONE'",
  ),
  balance(
    'a balance counts completed settlements twice',
    "and live = $2 and status = 'RUNNING'",
    'and live = $2',
  ),
  changes(
    'a balance omits events that have no number yet',
    "${part('>= (select pg_snapshot_xmax(snapshot) from state)')}",
    "${part('< (select pg_snapshot_xmax(snapshot) from state)')}",
  ),
  changes('a balance counts an event twice while it is numbered', ' and not ${IS_NUMBERED}`', '`'),
  final(
    'a payment that became final after the cut-off is settled with it',
    'set status = new_status, created_at = recorded_at',
    'set status = new_status',
  ),
  mark(
    'a reversed payment is settled',
    "`t.status = 'SUCCESS' and not",
    "`t.status <> 'PENDING' and not",
  ),
  mark(
    'a settled payment is settled again',
    "and s.kind = 'settlement' offset 0",
    'and false offset 0',
  ),
]
