// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the texts are source code
import { inFile } from './mutation.ts'

const HOURS = 'test/overview/payment-hours.test.ts'
const OVERVIEW = 'test/overview/overview.test.ts'
const REVIEW = 'test/overview/review.test.ts'
const SEARCH = 'test/overview/search.test.ts'
const TIMELINE = 'test/overview/timeline.test.ts'

const accounts = inFile('src/accounts/search/search-accounts.ts', SEARCH)
const attempts = inFile(
  'src/webhooks/figures/hour-store.ts',
  'test/overview/count-attempts.test.ts',
)
const followers = inFile('src/events/follow-log.ts', HOURS, 'test/events/followers.test.ts')
const follow = inFile('src/overview/figures/follow-payments.ts', HOURS)
const items = inFile('src/overview/review/list-review-items.ts', REVIEW)
const overview = inFile('src/overview/figures/read-overview.ts', OVERVIEW)
const scope = inFile('src/overview/scope.ts', SEARCH, REVIEW, OVERVIEW)
const search = inFile('src/overview/search/search.ts', SEARCH)
const timeline = inFile('src/overview/timeline/message.ts', TIMELINE)

/** Views across the domains: what they count, and what they show to whom. */
export const OVERVIEWS = [
  follow(
    'two instances count the same payments',
    'return rows[0]?.held ?? false',
    'return rows[0] !== undefined',
  ),
  followers(
    'payments are counted again after a crash',
    'await inTransaction(pool, (client) =>\n        followNext(client, follower',
    'await ((run: (on: PoolClient) => ReturnType<typeof followNext>) => run(pool as unknown as PoolClient))((client) =>\n        followNext(client, follower',
  ),
  followers(
    'an epoch counts payments again',
    '{ ...from, position, epoch }',
    '{ ...from, position: 0n * position, epoch }',
  ),
  followers(
    'a follower chases the end of a log that grows',
    "if (outcome !== 'more') return outcome === 'end'",
    "if (outcome === 'busy') return false",
  ),
  followers(
    'an event that the database refuses stops its follower',
    'if (eventsMax === 1) await setAside({ pool, log }, follower, position, error)',
    'if (eventsMax === 1) throw error',
  ),
  followers(
    'what is set aside is not counted',
    'setAside: from.setAside + 1n',
    'setAside: from.setAside',
  ),
  followers(
    'a follower keeps the scan of a table that was small',
    "set_config('enable_seqscan', 'off', true)",
    "set_config('enable_seqscan', 'on', true)",
  ),
  follow(
    'the total of all businesses has only the payments of the last batch',
    'payments = h.payments + excluded.payments',
    'payments = excluded.payments',
  ),
  attempts(
    'an instance replaces what another one counted',
    'attempts = h.attempts + excluded.attempts',
    'attempts = excluded.attempts',
  ),
  scope(
    'a restricted token sees all businesses',
    "businessId === '' ? restriction && [...restriction] : [businessId]",
    "businessId === '' ? undefined : [businessId]",
  ),
  scope(
    'a restricted token sees what concerns operators only',
    'isOperator: restriction === undefined',
    'isOperator: true',
  ),
  scope(
    'an identifier of another business is found',
    'businessIds === undefined || businessIds.includes(found.businessId)',
    'businessIds === undefined || found.businessId !== businessIds[0]?.slice(1)',
  ),
  accounts(
    "the accounts of other businesses are found by the customer's address",
    'and live = ${mode} and business_id = b.id',
    'and live = ${mode}',
  ),
  search(
    'tokens are found by a search within a business',
    'if (scope.businessIds !== undefined) return looks',
    'if (scope.businessIds?.length === 0) return looks',
  ),
  items(
    'the review queue shows operators’ items to a business',
    'scope.isOperator || !OPERATOR_KINDS.has(kind)',
    'scope.isOperator || kind !== undefined',
  ),
  items(
    'a page of the review queue passes over items',
    'return taken.at(-1)?.key ?? place',
    'return items.at(-1)?.key ?? place',
  ),
  overview(
    'a business sees the state of the banks',
    'scope.isOperator ? readBanks(database, bankModes, live) : []',
    'readBanks(database, bankModes, live)',
  ),
  timeline(
    'a business sees the reports that contradict its payments',
    '...(isOperator ? conflictSteps(found) : [])',
    '...conflictSteps(found)',
  ),
  timeline(
    'a business sees which credential recorded its payment',
    'recorder: toRecorderMessage(recordedBy, isOperator)',
    'recorder: toRecorderMessage(recordedBy, true)',
  ),
]
