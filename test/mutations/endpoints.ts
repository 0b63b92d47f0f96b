// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the texts are source code
import { inFile } from './mutation.ts'

const ORDERED = 'test/webhooks/ordered/ordered.test.ts'
const PREVIOUS = 'test/webhooks/deliveries/previous-sequence.test.ts'
const CONNECTION = 'test/webhooks/connections/connection.test.ts'
const OAUTH2 = 'test/webhooks/connections/oauth2.test.ts'

const ordered = inFile('src/webhooks/ordered/claim-ordered.ts', ORDERED)
const record = inFile('src/webhooks/deliveries/record-attempt.ts', ORDERED)
const previous = inFile('src/webhooks/dispatch/dispatch-events.ts', PREVIOUS)
const drop = inFile('src/webhooks/retention/drop-deliveries.ts', PREVIOUS)
const faults = inFile('src/webhooks/connections/connection-faults.ts', CONNECTION)
const tokens = inFile('src/webhooks/connections/access-tokens.ts', OAUTH2)
const sender = inFile('src/webhooks/connections/send-connected.ts', OAUTH2)
const kinds = inFile('src/events/event-kinds.ts', 'test/webhooks/catalogue/event-kinds.test.ts')
const rate = inFile(
  'src/webhooks/deliveries/rate-limiter.ts',
  'test/webhooks/deliveries/rate-limit.test.ts',
)

/** The options of endpoints: their secrets, their order, their limits. */
export const ENDPOINT_OPTIONS = [
  ordered(
    'an ordered endpoint is sent its next event while one is in progress',
    ' and (d.leased_until is null or d.leased_until <= $2)',
    '',
  ),
  ordered(
    'a delivery that is sent again is not found by an ordered endpoint',
    'least(e.ordered_from, again.first) - 1',
    'e.ordered_from',
  ),
  ordered(
    'an ordered endpoint is sent its newest event first',
    'order by position limit ${SCANNED_MAX}',
    'order by position desc limit ${SCANNED_MAX}',
  ),
  ordered(
    'an ordered endpoint never gets past many completed deliveries',
    'order by position offset ${SCANNED_MAX - 1} limit 1',
    'order by position offset ${SCANNED_MAX - 1} limit 0',
  ),
  record(
    'an ordered endpoint goes past an event that it did not acknowledge',
    'Math.min(claim.attempts + 1, scheduleMs.length)',
    'claim.attempts + 1',
  ),
  previous(
    'the first event of a batch seems to be the first one of its endpoint',
    'coalesce(previous, ${LAST_SEQUENCE})',
    'coalesce(previous, 0)',
  ),
  previous(
    'an endpoint without recent deliveries seems to be new',
    'last_delivery_sequence(m.endpoint_id, $7)`',
    '0`',
  ),
  drop(
    'an endpoint seems to be new after its deliveries were dropped',
    "await keepSequences(pool, lower ?? '0', upper)",
    '',
  ),
  faults(
    'a new URL obtains the secrets of the former one',
    'if (isMoved && kept.length > 0)',
    'if (false as boolean)',
  ),
  faults('a custom header replaces one of the signature', 'webhook-.*|', ''),
  tokens(
    'a refusal of the token server is shown as it is',
    '/^[a-z_]{1,50}$/.test(code)',
    'code.length > 0',
  ),
  tokens('an expired token is used', '&& clock.now() < found.untilMs', ''),
  sender('a token that was refused is used again', 'tokens.forget(to.endpointId, first.token)', ''),
  kinds(
    'an endpoint may ask for events of no business',
    'faultsAmong(ENDPOINT_KINDS',
    'faultsAmong(EVENT_KINDS',
  ),
  rate('requests take no tokens of the rate limit', 'rates.get(endpointId)?.take()', ''),
]
