// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the texts are source code
import { inFile } from './mutation.ts'

const DUE = 'test/settlement/due.test.ts'
const MODES = 'test/settlement/due-modes.test.ts'
const SWEEP = 'test/settlement/sweep-due.test.ts'

const claim = inFile('src/settlement/due/claim-due.ts', MODES, DUE)
const follow = inFile('src/events/follow-log.ts', DUE)
const lock = inFile('src/settlement/due/lock-due.ts', DUE)
const refresh = inFile('src/settlement/due/refresh-due.ts', MODES, DUE)
const sweep = inFile('src/settlement/due/sweep-due.ts', SWEEP, DUE)

/** The index of what is due. */
export const DUE_SETTLEMENTS = [
  claim(
    'a balance whose instance died is not settled for hours',
    'new Date(nowMs + LEASE_MS)',
    'new Date(nowMs + 1_000 * LEASE_MS)',
  ),
  claim(
    'a balance that failed is not settled for hours',
    'least($4 * 2 ^ least(d.failures, 30), $5)',
    '($4 * 2 ^ least(d.failures, 30) + $5)',
  ),
  follow(
    'payments that retention deleted are never settled',
    'if (missing > 0n) {',
    'if (missing > 1_000_000n) {',
  ),
  follow(
    'what an epoch changed is not looked for',
    'position, epoch })\n  await follower.onGap?.(client)\n',
    'position, epoch })\n',
  ),
  follow(
    'payments of a log that became shorter are passed over',
    'from.position < end.position ? from.position : end.position',
    'from.position',
  ),
  lock(
    'a settlement removes the row that the follower relies on',
    "'pg_advisory_xact_lock_shared' : 'pg_advisory_xact_lock'",
    "'pg_advisory_xact_lock_shared' : 'pg_advisory_xact_lock_shared'",
  ),
  refresh(
    'a settlement of one mode hides the payments of the other',
    'where business_id = k.business_id and live = k.live order by to_sequence desc',
    'where business_id = k.business_id order by to_sequence desc',
  ),
  refresh(
    'a settlement of one mode removes the other from the index',
    'where d.business_id = k.business_id and d.live = k.live`',
    'where d.business_id = k.business_id`',
  ),
  refresh(
    'terms that settle earlier have no effect',
    'set due_at = excluded.due_at, next_at = excluded.next_at, failures = 0',
    'set due_at = excluded.due_at, failures = 0',
  ),
  sweep(
    'a sweep ends after its first page',
    'isLast: keys.length < BALANCES_MAX',
    'isLast: keys.length <= BALANCES_MAX',
  ),
  sweep(
    'a sweep leaves a balance that is due too late',
    'stored.get(nameOf(each)) !== each.dueAtMs)',
    'stored.get(nameOf(each)) === undefined)',
  ),
]
