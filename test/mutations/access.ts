import { mutationsOf } from './mutation.ts'

const OTHERS = [
  'test/overview/',
  'test/model/access.test.ts',
  'test/protocols/matrix/modes.test.ts',
] as const

/** Accounts, sessions and notifications: what is opened twice, outlives its credential, or is credited unconfirmed. */
export const ACCESS = mutationsOf('access', OTHERS, {
  'src/accounts/one-time-store.ts': {
    'two payments at once both use up an account': [
      ' and one_time order by id for no key update',
      ' and one_time order by id',
    ],
  },
  'src/notifications/store.ts': {
    'that a bank refused a payment is forgotten': [
      "refused or new_outcome in ('UNCONFIRMED', 'MANUAL_REVIEW')",
      'refused',
    ],
  },
  'src/accounts/list-accounts.ts': {
    "the accounts of other businesses are found by the customer's address": [
      `and live = \${mode} and business_id = b.id`,
      `and live = \${mode}`,
    ],
  },
  'src/accounts/opening-store.ts': {
    'two calls open an account at once': [
      `and status = 'PENDING' and claimed_until <= $2
`,
      `and status = 'PENDING' and $2::timestamptz is not null
`,
    ],
    'an account in manual review is opened again': [
      `          and opening_state <> 'MANUAL_REVIEW'
`,
      '',
    ],
  },
  'src/accounts/store.ts': {
    'a business finds the account of another by its reference': [
      '(reference = $2 and business_id = $1 and live',
      '(reference = $2 and live',
    ],
  },
  'src/auth/sessions/store.ts': {
    'a session outlives its token': [
      'and (t.id is null or t.revoked_at is not null)',
      'and t.id is null',
    ],
    'a session outlives its portal link': [
      "or s.kind = 'portal' and (p.id is null or p.revoked_at is not null)",
      "or s.kind = 'portal' and p.id is null",
    ],
    'a revoked session is valid': [
      `(s.revoked_at is not null
  or`,
      `(false
  or`,
    ],
  },
  'src/auth/sessions/sign-in.ts': {
    'a one-time code of a revoked token signs in': [
      '{ id: callerId, revokedAt: null }',
      '{ id: callerId }',
    ],
    'a revoked portal link can be opened': [
      'expiresAt: { $gt: now }, revokedAt: null }',
      'expiresAt: { $gt: now } }',
    ],
  },
})
