// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the texts are source code
import { inFile } from './mutation.ts'

const CLAIMS = 'test/webhooks/deliveries/end-claims.test.ts'
const DELIVER = 'test/webhooks/deliveries/deliver.test.ts'
const DELIVERIES = 'test/webhooks/deliveries/deliveries.test.ts'
const RETENTION = 'test/webhooks/deliveries/retention.test.ts'

const create = inFile(
  'src/webhooks/endpoints/create-endpoint.ts',
  'test/thirdparty/webhooks.test.ts',
)
const complete = inFile('src/webhooks/deliveries/complete-attempts.ts', CLAIMS, DELIVERIES)
const health = inFile(
  'src/webhooks/deliveries/complete-attempts.ts',
  'test/webhooks/endpoints/health.test.ts',
)
const end = inFile('src/webhooks/deliveries/end-claims.ts', CLAIMS)
const claim = inFile('src/webhooks/deliveries/claim-deliveries.ts', CLAIMS, DELIVER)
const secrets = inFile(
  'src/webhooks/deliveries/claim-deliveries.ts',
  'test/webhooks/endpoints/update-endpoint.test.ts',
)
const dispatch = inFile(
  'src/webhooks/dispatch/dispatch-events.ts',
  CLAIMS,
  DELIVER,
  'test/webhooks/deliveries/modes.test.ts',
  RETENTION,
)
const about = inFile(
  'src/webhooks/dispatch/dispatch-events.ts',
  DELIVERIES,
  'test/webhooks/endpoints/health.test.ts',
)
const resend = inFile('src/webhooks/deliveries/resend-deliveries.ts', DELIVERIES)
const drop = inFile('src/webhooks/retention/drop-deliveries.ts', RETENTION)
const keys = inFile(
  'src/webhooks/deliveries/delivery-keys.ts',
  'test/webhooks/deliveries/partitions.test.ts',
)
const record = inFile('src/webhooks/deliveries/record-attempt.ts', DELIVER)
const retry = inFile('src/webhooks/deliveries/retry.ts', 'test/webhooks/deliveries/retry.test.ts')
const sign = inFile('src/webhooks/sender/sign.ts', 'test/webhooks/sender/sign.test.ts')
const guard = inFile(
  'src/webhooks/sender/address-guard.ts',
  'test/webhooks/endpoints/endpoint-url.test.ts',
)
const url = inFile(
  'src/webhooks/endpoints/endpoint-url.ts',
  'test/webhooks/endpoints/endpoint-url.test.ts',
)
const watch = inFile(
  'src/webhooks/endpoints/watch-health.ts',
  'test/webhooks/endpoints/health.test.ts',
)

export const WEBHOOKS = [
  create(
    'a repeated request creates a second endpoint',
    'const same = uniqueUrl ?',
    'const same = uniqueUrl && false ?',
  ),
  complete(
    'a late completion is recorded while another process attempts the delivery',
    ' and d.claims = i.claim',
    '',
  ),
  complete(
    'a completion that is repeated counts twice',
    'claims = d.claims + 1, leased_until = null',
    'leased_until = null',
  ),
  complete(
    'the earlier attempt of a delivery is lost',
    'where id = any(array(select id from recorded where attempts > 1))',
    'where id = any(array(select id from recorded where attempts > 2))',
  ),
  health(
    'a success does not end the failing of an endpoint',
    'where o.success = (e.failing_since is not null)',
    'where not o.success and e.failing_since is null',
  ),
  end(
    'claims of another statement are released as well',
    'where d.leased_until = any($2::timestamptz[])',
    'where d.leased_until is not null',
  ),
  end(
    'claims whose result was lost wait for their lease',
    'if (isRetryable(error)) unclear.push(attempt)',
    '',
  ),
  end(
    'claims are released again when a process already sends them',
    'unclear = unclear.slice(released.length)',
    '',
  ),
  end('a late release lets a delivery be sent twice', ' and d.claims = i.claim', ''),
  end(
    'a process that released a delivery records its attempt',
    'set leased_until = null, claims = d.claims + 1\n',
    'set leased_until = null\n',
  ),
  claim(
    'a claim does not end the one before',
    'set leased_until = $4, claims = claims + 1',
    'set leased_until = $4',
  ),
  claim(
    'a delivery in progress is claimed by another process',
    ' and (leased_until is null or leased_until <= ${now})',
    '',
  ),
  claim(
    'a delivery is sent before it is due',
    "state = 'PENDING' and due_at <= ${now} and",
    "state = 'PENDING' and",
  ),
  claim(
    'a delivered webhook is sent again',
    "`state = 'PENDING' and due_at",
    "`state <> 'FAILED' and due_at",
  ),
  claim(
    'a deleted endpoint receives webhooks',
    'where id = a.endpoint_id and deleted_at is null and disabled_at is null and not ordered',
    'where id = a.endpoint_id and disabled_at is null and not ordered',
  ),
  secrets(
    'an expired secret still signs',
    '(s.expires_at is null or s.expires_at > ${now})',
    'true',
  ),
  dispatch(
    'an endpoint receives the events of another business',
    'where business_id = n.business_id and live = n.live and',
    'where live = n.live and',
  ),
  dispatch(
    'an endpoint receives the events of the other mode',
    'where business_id = n.business_id and live = n.live and',
    'where business_id = n.business_id and',
  ),
  dispatch(
    'an endpoint receives events from before its creation',
    'where e.after_position < n.position\n          and case',
    'where true\n          and case',
  ),
  dispatch(
    'an endpoint receives kinds that it did not choose',
    'else o.kind = any(e.kinds) end',
    'else true end',
  ),
  dispatch(
    'an event is passed over without deliveries',
    'select max(position) from next having',
    'select max(position) + 1 from next having',
  ),
  dispatch(
    'events are dispatched again',
    'select max(position) from next having count(*) > 0',
    'select max(position) from next having false',
  ),
  dispatch(
    'two instances dispatch the same events',
    "lastPosition('(select held from lock)')",
    'lastPosition()',
    'A unique index of event and endpoint keeps each delivery once.',
  ),
  about(
    'a test event goes to all endpoints',
    "when o.kind = 'ENDPOINT_TEST' then o.subject_id = e.id\n",
    '',
  ),
  about('an endpoint receives the event about itself', 'when o.subject_id = e.id then false\n', ''),
  resend(
    'a redelivery touches an attempt in progress',
    "and (d.state <> 'PENDING' or ${waitsForRetry('?')})",
    "and (d.state <> 'PENDING' or ${waitsForRetry('?')} or true)",
  ),
  resend(
    'a redelivery does not end a claim',
    'leased_until = null, claims = d.claims + 1`',
    'leased_until = null`',
    'Whatever ended the claim before has raised the fence already.',
  ),
  resend(
    'recovering sends what was delivered',
    "where endpoint_id = $1 and state = 'FAILED' and position > $4",
    "where endpoint_id = $1 and state <> 'PENDING' and position > $4",
    'The update checks the state again.',
  ),
  resend(
    'recovering skips failed deliveries',
    'order by position limit $5',
    'order by position offset 1 limit $5',
  ),
  resend(
    'a redelivery without its event is promised',
    'const EVENT_KEPT = `exists (select',
    'const EVENT_KEPT = `true or exists (select',
  ),
  drop(
    'a partition is dropped while it has deliveries that are not old enough',
    'order by id desc limit 1',
    'order by id limit 1',
  ),
  dispatch(
    'a disabled endpoint gets deliveries for ever',
    'and (disabled_at is null or disabled_at >= $6)',
    'and $6::timestamptz is not null',
  ),
  keys(
    'deliveries of the first partition alone are recorded',
    'return [sorted[0] ?? 0n, sorted.at(-1) ?? 0n]',
    'return [sorted[0] ?? 0n, sorted[0] ?? 0n]',
  ),
  record(
    'a failed attempt is recorded as delivered',
    "if (error === '') return { ...base, state: 'DELIVERED', atMs: nowMs }",
    "return { ...base, state: 'DELIVERED', atMs: nowMs }",
  ),
  retry(
    'a delivery ends one retry early',
    'const scheduledMs = scheduleMs[attempts - 1]',
    'const scheduledMs = scheduleMs[attempts]',
  ),
  retry(
    'Retry-After shortens a wait',
    'return Math.max(jitteredMs, Math.min(retryAfterMs ?? 0, RETRY_AFTER_MAX_MS))',
    'return Math.min(retryAfterMs ?? jitteredMs, RETRY_AFTER_MAX_MS)',
  ),
  sign(
    'a signature does not cover the id of the event',
    '.update(`${eventId}.${timestampSeconds}.`)',
    '.update(`${timestampSeconds}.`)',
  ),
  sign(
    'a signature does not cover the time',
    '.update(`${eventId}.${timestampSeconds}.`)',
    '.update(`${eventId}.`)',
  ),
  sign(
    'the earlier secret of a rotation does not sign',
    "signatures.join(' ')",
    "signatures[0] ?? ''",
  ),
  guard('webhooks reach private addresses', "'10.0.0.0/8', '172.16.0.0/12',", "'172.16.0.0/12',"),
  guard('webhooks reach the metadata service', "['169.254.0.0/16', 'fe80::/10']", "['fe80::/10']"),
  guard(
    'webhooks reach private addresses through NAT64',
    'NAT64.contains(address) ? lastIPv4(address) : address',
    'address',
  ),
  url(
    'an endpoint may use http',
    "if (scheme === 'http' && !rules.allowHttp) return 'must be an https URL'\n",
    '',
  ),
  url(
    'an endpoint may be this machine by name',
    "if (name === 'localhost' || name.endsWith('.localhost')) {",
    "if (name === 'localhost.') {",
  ),
  watch(
    'an endpoint is disabled for the response of its earlier URL',
    '      id,\n      url,\n',
    '      id,\n',
  ),
]
