// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the texts are source code
import { inFile } from './mutation.ts'

const HELD = 'test/notifications/held.test.ts'
const LISTED = 'test/protocols/rest/listed-rows.test.ts'
const CLAIMS = 'test/accounts/claims.test.ts'

const process = inFile('src/notifications/process-notification.ts', HELD)
const stored = inFile('src/notifications/store.ts', HELD)
const held = inFile('src/notifications/held-notifications.ts', HELD)
const conflicts = inFile('src/transactions/conflicts/store.ts', HELD)
const session = inFile('src/transactions/lists/list-of-session.ts', LISTED)
const open = inFile('src/accounts/openings/open-at-bank.ts', CLAIMS)
const create = inFile(
  'src/accounts/create-account.ts',
  CLAIMS,
  'test/protocols/rest/bank-faults.test.ts',
)
const confirm = inFile(
  'src/notifications/confirm-payment.ts',
  'test/notifications/confirm-payment.test.ts',
)
const palmPay = inFile(
  'src/banks/palmpay/open-account.ts',
  'test/banks/palmpay/open-account.test.ts',
)
const safeHaven = inFile(
  'src/banks/safehaven/open-account.ts',
  'test/banks/safehaven/open-account.test.ts',
)
const breakers = inFile('src/banks/breakers/list-breakers.ts', 'test/banks/breakers.test.ts')
const unknown = inFile('src/server/rest/routes.ts', 'test/protocols/rest/unknown-fields.test.ts')

/** What a bank leaves unclear, and what operators and businesses see of it. */
export const BANKS_LOOSE_ENDS = [
  process(
    'a payment that its bank refused is credited when requeries are turned off',
    'served.requery || !reading.bound || (await',
    'served.requery || !reading.bound || !(await',
  ),
  stored(
    'that a bank refused a payment is forgotten',
    "refused or new_outcome in ('UNCONFIRMED', 'MANUAL_REVIEW')",
    'refused',
  ),
  stored(
    'a held notification has no event',
    "where event_id <> '' and old_state <> 'MANUAL_REVIEW'",
    'where false',
  ),
  held(
    'an operator reads held notifications without a trace',
    "    await audit(em, actor, 'notification.show', row)\n",
    '',
  ),
  held(
    'a resolved notification is processed again',
    "const held = { id, state: 'MANUAL_REVIEW' } as const\n    const changed = await em.nativeUpdate(NotificationEntity, held, pending)",
    'const held = { id } as const\n    const changed = await em.nativeUpdate(NotificationEntity, held, pending)',
  ),
  conflicts(
    'a resolved conflict waits for ever',
    'set resolved_at = $2, note = $3',
    'set resolved_at = nullif($2, $2), note = $3',
  ),
  session(
    "the payments of a session show another business's",
    "'(t.business_id = any ($3::text[]) or $3 is null)'",
    "'(t.business_id >= left(($3::text[])[1], 1) or $3 is null)'",
  ),
  open(
    'two calls ask a slow bank for one account',
    'return callTimeoutMs + STORE_MS',
    'return Math.min(callTimeoutMs, 10_000) + STORE_MS',
  ),
  open(
    'what a slow bank opens is not waited for',
    'const signal = AbortSignal.timeout(callTimeoutMs)',
    'const signal = AbortSignal.timeout(Math.min(callTimeoutMs, 10_000))',
  ),
  create(
    'a lasting refusal looks like a bank that did not answer',
    '  if (refused) throw bankRefused(cause)\n',
    '',
  ),
  create(
    'a caller waits for a slow bank for ever',
    'if (clock.now() <= untilMs) continue',
    'continue',
  ),
  confirm(
    'a slow bank confirms no payment',
    'AbortSignal.timeout(callTimeoutMs)',
    'AbortSignal.timeout(Math.min(callTimeoutMs, 9_000))',
  ),
  palmPay(
    'a second account is opened at PalmPay, because it does not know the first',
    'if (response.code === notOpenedCode) {',
    'if (response.code === NOT_FOUND) {',
  ),
  palmPay(
    "a stranger's account at PalmPay is taken for the customer's",
    'if (reference !== order.reference)',
    'if (reference === undefined)',
  ),
  safeHaven(
    "a customer's account at Safe Haven is opened with the operator's identity",
    'verification?.identityId ?? operatorIdentityId',
    'operatorIdentityId ?? verification?.identityId',
  ),
  breakers(
    'the breaker of a dead process stays open',
    "'seenAt',\n      '>',",
    "'seenAt',\n      'is not',",
  ),
  unknown(
    'a mistyped field of a change is ignored',
    "ignoresUnknownFields(invoker.method) ? 'ignore' : 'refuse'",
    "invoker.method.name.startsWith('List') ? 'refuse' : 'ignore'",
  ),
]
