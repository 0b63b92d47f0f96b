import { inFile } from './mutation.ts'

const RETENTION = 'test/webhooks/deliveries/retention.test.ts'

const position = inFile(
  'src/webhooks/dispatch/dispatcher-position.ts',
  'test/webhooks/deliveries/dispatcher-position.test.ts',
)
const dispatch = inFile(
  'src/webhooks/dispatch/dispatch-events.ts',
  'test/webhooks/deliveries/claimed-as-made.test.ts',
)
const retention = inFile('src/webhooks/retention/retention.ts', RETENTION)

/** The dispatcher's position, claims at once, and the end of deliveries. */
export const DISPATCH = [
  position(
    'the dispatcher stands still',
    'order by position desc limit 1`',
    'order by position limit 1`',
  ),
  position(
    'the dispatcher forgets its position',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the text is source code
    'position < (${lastPosition()})',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the text is source code
    'position <= (${lastPosition()})',
  ),
  dispatch(
    'a disabled endpoint receives new webhooks',
    'coalesce(e.disabled_at is null and not e.ordered\n          and row_number()',
    'coalesce(true\n          and row_number()',
  ),
  dispatch(
    'two processes send a delivery that was created as claimed',
    'case when claimed then $5::timestamptz end',
    'case when claimed then $2::timestamptz end',
  ),
  retention(
    'a delivery fails while an attempt is in progress',
    '            and (leased_until is null or leased_until <= $1)\n',
    '',
  ),
  retention(
    'a late attempt changes a delivery that has failed',
    'failure = x.failure,\n        claims = d.claims + 1',
    'failure = x.failure',
  ),
  retention(
    'an endpoint is purged before its deliveries',
    '          and not exists (select from webhook_delivery where endpoint_id = e.id)\n',
    '',
  ),
  retention(
    'deliveries are dropped that are too young',
    'const beforeMs = nowMs - retentionDays * DAY_MS',
    'const beforeMs = nowMs',
  ),
]
