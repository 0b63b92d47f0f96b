// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the texts are source code
import { inFile } from './mutation.ts'

const NOTIFICATIONS = 'test/notifications/notifications.test.ts'
const BATCHES = 'test/notifications/batches.test.ts'
const STATEMENT = 'test/reconciliation/statement.test.ts'

const receive = inFile('src/notifications/receive-notification.ts', NOTIFICATIONS, BATCHES)
const stored = inFile('src/notifications/store.ts', NOTIFICATIONS)
const sessions = inFile('src/notifications/payment-sessions.ts', NOTIFICATIONS, BATCHES)
const finish = inFile('src/notifications/finish-processing.ts', BATCHES)
const confirm = inFile(
  'src/notifications/confirm-payment.ts',
  'test/notifications/reversal.test.ts',
  NOTIFICATIONS,
)
const process = inFile(
  'src/notifications/process-notification.ts',
  NOTIFICATIONS,
  'test/transactions/unmatched.test.ts',
)
const reversal = inFile(
  'src/notifications/process-notification.ts',
  'test/notifications/reversal.test.ts',
)
const match = inFile('src/reconciliation/match-payments.ts', STATEMENT)
const found = inFile('src/transactions/find-reported.ts', 'test/transactions/find-reported.test.ts')
const reconcile = inFile('src/reconciliation/reconcile-statement.ts', STATEMENT)
const requery = inFile('src/accounts/claim-requery.ts', 'test/thirdparty/requery.test.ts')
const missing = inFile('src/reconciliation/record-missing.ts', 'test/reconciliation/job.test.ts')
const unmatched = inFile(
  'src/transactions/unmatched/store.ts',
  'test/transactions/unmatched.test.ts',
)
const resolve = inFile(
  'src/transactions/unmatched/resolve-unmatched.ts',
  'test/transactions/unmatched.test.ts',
)
const ninePsb = inFile('src/banks/9psb/notification.ts', 'test/banks/9psb-notification.test.ts')
const palmPay = inFile('src/banks/palmpay/signature.ts', 'test/banks/palmpay-signature.test.ts')
const palmPayNotice = inFile(
  'src/banks/palmpay/notification.ts',
  'test/banks/palmpay/notification.test.ts',
)
const order = inFile(
  'src/banks/palmpay/order.ts',
  'test/banks/palmpay/notification.test.ts',
  'test/banks/palmpay/payments.test.ts',
)
const providus = inFile('src/banks/providus/requery.ts', 'test/banks/providus-payments.test.ts')
const transfer = inFile(
  'src/banks/safehaven/transfer.ts',
  'test/banks/safehaven/notification.test.ts',
  'test/banks/safehaven/payments.test.ts',
)
const amount = inFile('src/banks/amount.ts', 'test/banks/9psb-notification.test.ts')

export const BANKING = [
  receive(
    'a payment is lost that the bank confirms after all tries',
    "=== 'PROCESSED' && stored.outcome !== 'UNCONFIRMED'",
    "=== 'PROCESSED'",
  ),
  receive(
    'a forged notification is processed',
    "if (reading.kind === 'unauthenticated') return 'UNAUTHENTICATED'",
    "if (reading.kind === 'unauthenticated' && reading.cause === '') return 'UNAUTHENTICATED'",
  ),
  stored('the end of a repeated notification is not stored', " or outcome = 'UNCONFIRMED')", ')'),
  sessions(
    'a payment has a session for each report',
    'select coalesce(a.session_id, ${SESSION_OF_KEY}) as session_id',
    'select i.session_id',
  ),
  sessions(
    'a deadlock over sessions fails all payments of its batch',
    'if (isDeadlock(error)) throw new Error',
    'if (isDeadlock(error)) throw error\n    else throw new Error',
  ),
  finish(
    'a later result replaces that of a processed notification',
    'else if (!isFinal(earlier))',
    'else',
  ),
  receive(
    'a recorded payment is refused because its result is not stored',
    "log.error({ err: error, bank, id }, 'the result of a notification could not be stored')",
    'throw error',
  ),
  confirm(
    'another amount than the bank has is credited',
    "payment.amountMinor !== reported.amountMinor && 'amount',",
    '',
  ),
  confirm(
    'an account that the bank did not name is credited',
    "payment.accountNumber !== reported.accountNumber && 'account number',",
    '',
  ),
  confirm(
    'a payment is credited without a requery',
    'if (!requery && reading.bound) {',
    'if (!requery || reading.bound) {',
  ),
  confirm('an amount of zero is credited', 'if (amountMinor <= 0n ||', 'if (amountMinor < 0n ||'),
  process(
    'a payment that was returned to its payer is recorded',
    'if (await isReturned(incoming)) {',
    'if (await isReturned({ ...incoming, sessionId: "" })) {',
  ),
  process(
    'an unclear response of the bank counts as a denial',
    "case 'unknown':\n      return { outcome: 'RETRY'",
    "case 'unknown':\n      return { outcome: 'IGNORED'",
  ),
  process(
    'a payment that the bank denies is not tried again',
    "if (outcome === 'UNCONFIRMED') {",
    'if (false) {',
  ),
  reversal(
    "the bank's own repeats use up the tries",
    'if (tries < TRIES_MAX || triedMs < TRIED_MIN_MS) {',
    'if (tries < TRIES_MAX) {',
  ),
  process(
    'a conflict is acknowledged as recorded',
    "CONFLICT: 'MANUAL_REVIEW',",
    "CONFLICT: 'RECORDED',",
  ),
  reversal(
    'a reversal is recorded under another session',
    'reversePayment(bank, sessionId ?? payment.sessionId, reason)',
    'reversePayment(bank, payment.sessionId, reason)',
  ),
  reversal(
    'a reversal that the bank does not confirm ends',
    "outcome: 'RETRY',\n        cause: 'the notification is a reversal",
    "outcome: 'IGNORED',\n        cause: 'the notification is a reversal",
  ),
  match(
    'an unmatched payment is never recorded although its account was opened',
    'found.isUnmatched && !found.isAccountOpen',
    'found.isUnmatched',
  ),
  match(
    'a returned payment counts as missing',
    " || found.resolution === 'RETURNED') return 'MATCHED'",
    ") return 'MATCHED'",
  ),
  match(
    'a reversal at the bank is not noticed',
    "['REVERSED', 'FAILED'].includes(recorded.status)",
    'true',
  ),
  match(
    'a payment is sought by the session of the report only',
    'sessions.get(bankKey) ?? (sessionId || bankKey)',
    '(sessionId || bankKey)',
  ),
  found(
    'a test transaction is taken for the payment of a statement',
    's.bank = $1 and s.live',
    's.bank = $1',
  ),
  found('a REVERSED after a FAILED is not reviewed', ' and c.status = r.status', ''),
  found(
    'a session at another bank is taken for the payment of a statement',
    's.session_id = r.session_id and s.bank = $1 and',
    's.session_id = r.session_id and $1 is not null and',
  ),
  reconcile(
    'a row of a live bank is credited without a requery',
    'if (served === undefined) return recordUnconfirmed',
    'if (served !== null) return recordUnconfirmed',
  ),
  reconcile('a dry run records payments', 'if (!apply) return results\n', ''),
  requery(
    'a bank is asked for an account whenever its business likes',
    'requeried_at <= $3)',
    'requeried_at <= $3 or true)',
  ),
  missing(
    'a missing payment is left to the bank',
    "return finding === 'MISSING' || (finding",
    'return (finding',
  ),
  missing(
    'a conflict is requeried by each run',
    "(finding === 'MISMATCHED' && !conflictRecorded)",
    "finding === 'MISMATCHED'",
  ),
  unmatched(
    'an unmatched payment is assigned although its session is recorded',
    'where id = any ($9) and exists (select from recorded)',
    'where id = any ($9)',
  ),
  unmatched(
    'a payment that is recorded can be returned',
    "where id = any ($1) and not ${isRecorded('u')} returning",
    'where id = any ($1) returning',
  ),
  unmatched(
    'an assigned payment is assigned again',
    'where n.id = $1 and n.resolution is null and u.resolution is null',
    'where n.id = $1',
  ),
  resolve(
    'a payment is assigned to an account at another bank',
    'if (account.bank !== payment.bank) {',
    'if (account.bank === undefined) {',
    'The statement compares the banks too; only the error text differs.',
  ),
  ninePsb(
    'a notification with a wrong hash is read',
    "if (!equalSecrets(getPath(body, 'hash').trim().toUpperCase(), hash)) {",
    'if (hash === undefined) {',
  ),
  ninePsb(
    'a notification with wrong credentials is read',
    'if (!isBasic(authorization, notificationUser, notificationPassword)) {',
    'if (authorization === undefined) {',
  ),
  ninePsb(
    'a payment in another currency is credited',
    "if (currency !== 'NGN')\n",
    "if (currency === '')\n",
  ),
  palmPay('empty values of a signature are kept', ".filter(([, value]) => value !== '')", ''),
  palmPay(
    'an ambiguous signature binds a payment',
    '!/[&=]/.test(name) && !/&|^\\s*[[{]/.test(value)',
    '!/[&=]/.test(name)',
  ),
  palmPayNotice(
    'the notification of another merchant is read',
    "appId !== '' && appId !== rules.appId",
    'false',
  ),
  palmPayNotice(
    'a notification with a wrong signature is read',
    'if (!isSigned(signed, sign, rules.publicKey)) {',
    "if (sign === '-') {",
  ),
  order('an order that is not paid is credited', 'if (status !== PAID)', "if (status === '0')"),
  order(
    'a payout is credited',
    "if (textOf(fields, 'orderId') !== '')\n",
    "if (textOf(fields, 'orderId') === '-')\n",
  ),
  providus(
    'another settlement id is confirmed',
    'if (payment.bankKey !== reported.bankKey) {',
    "if (payment.bankKey === '') {",
  ),
  providus(
    'another session id is confirmed',
    "sessionId !== '' &&\n    sessionId !== reported.sessionId &&",
    "sessionId === '-' &&\n    sessionId !== reported.sessionId &&",
  ),
  providus(
    'an error of the bank denies a payment',
    'if (isEmpty && status < 500 && /not found/i',
    'if (isEmpty && /not found/i',
  ),
  transfer(
    'a transfer that left the account is credited',
    "if (direction === '' ? directed : direction !== 'inwards') {",
    "if (direction === '' && directed) {",
  ),
  transfer(
    'a transfer that is not completed is credited',
    "if (!reversed && status.toLowerCase() !== 'completed') {",
    "if (!reversed && status === '') {",
  ),
  transfer(
    'a reversed transfer is credited',
    "return { kind: reversed ? 'reversed' : 'paid', payment }",
    "return { kind: 'paid', payment }",
  ),
  amount(
    'half a naira is read as five kobo',
    "(match[2] ?? '').padEnd(2, '0')",
    "(match[2] ?? '').padStart(2, '0')",
  ),
]
