import type { ConfiguredCertificate } from '../../../gen/inflow/webhook/v1/endpoint_options_pb.ts'
import {
  type Endpoint,
  EndpointProfile,
  type EndpointStatistics,
  LegacySignature,
} from '../../../gen/inflow/webhook/v1/endpoint_pb.ts'
import { words } from '../format/ids.ts'
import { count } from '../format/money.ts'
import { durationText } from '../format/time.ts'
import { useBusinessNames } from '../session/business-names.ts'
import { Facts } from '../ui/page.tsx'
import { Id, PageLink, Time } from '../ui/values.tsx'
import { disabledBecause, successText } from './endpoint-state.ts'
import { authenticationText } from './options-text.ts'

/** What is known of an endpoint: itself, how it is signed and sent, and the last 24 hours. */
export function EndpointFacts({
  endpoint,
  statistics,
}: {
  readonly endpoint: Endpoint
  readonly statistics: EndpointStatistics | undefined
}) {
  const { businessId, disabledAt, failingSince, kinds } = endpoint
  const nameOf = useBusinessNames([businessId])
  return (
    <div className="fact-columns">
      <Facts
        facts={[
          ['URL', endpoint.url],
          ['Id', <Id key="id" text={endpoint.id} charsMax={40} />],
          [
            'Business',
            <PageLink key="business" to={`/businesses/${businessId}`}>
              {nameOf(businessId)}
            </PageLink>,
          ],
          ['Description', endpoint.description],
          ['Kinds', kinds.map((kind) => words(kind)).join(', ') || 'The default kinds'],
          ['Created', <Time key="created" at={endpoint.createdAt} />],
          ['Failing since', failingSince && <Time at={failingSince} />],
          ['Disabled', disabledAt && <Time at={disabledAt} />],
          ['Because', disabledBecause(endpoint)],
        ]}
      />
      <Sending endpoint={endpoint} />
      <Facts facts={statisticsFacts(statistics)} />
    </div>
  )
}

function Sending({ endpoint }: { readonly endpoint: Endpoint }) {
  const { concurrency, options, secrets } = endpoint
  const certificate = options?.clientCertificate
  return (
    <Facts
      facts={[
        ...formatFacts(endpoint),
        ...secrets.map(
          ({ createdAt, expiresAt, next }, index) =>
            [
              index === 0 ? 'Secret' : `Secret ${index + 1}`,
              <span key={String(createdAt?.seconds)}>
                of <Time at={createdAt} />
                {next && ', signs test events until you switch to it'}
                {expiresAt && (
                  <>
                    , signs until <Time at={expiresAt} />
                  </>
                )}
              </span>,
            ] as const,
        ),
        ['Concurrency', `${concurrency} requests of each instance`],
        ['Rate limit', options?.rateLimit ? `${options.rateLimit} a second` : 'None'],
        ['Order', options?.ordered ? 'Strictly in order, one at a time' : 'As they come'],
        ['Headers', options?.headerNames.join(', ')],
        ['Authentication', authenticationText(options) ?? 'The signature only'],
        ['Certificate', certificate && <Certificate certificate={certificate} />],
      ]}
    />
  )
}

const LEGACY_SIGNATURES: Readonly<Record<LegacySignature, string | undefined>> = {
  [LegacySignature.UNSPECIFIED]: undefined,
  [LegacySignature.MD5]: 'MD5 of the text (weak)',
  [LegacySignature.HMAC_BODY]: 'HMAC-SHA256 of the body alone (weak)',
}

/** How requests look and are signed. */
function formatFacts({
  profile,
  legacySignature,
  eventName,
  payerAsArray,
  wiaxyHeaders,
}: Endpoint) {
  if (profile !== EndpointProfile.WIAXY) {
    const also = wiaxyHeaders ? ', and the x-wiaxy headers' : ''
    return [['Profile', `Standard Webhooks${also}`] as const]
  }
  return [
    ['Profile', 'wiaxy'],
    ['Earlier signature', LEGACY_SIGNATURES[legacySignature]],
    ['Event name', eventName],
    ['Payer', payerAsArray ? 'As an array of one' : undefined],
  ] as const
}

function Certificate({
  certificate: { subject, fingerprintSha256, expiresAt },
}: {
  readonly certificate: ConfiguredCertificate
}) {
  return (
    <span title={`SHA-256 ${fingerprintSha256}`}>
      {subject}, until <Time at={expiresAt} />
    </span>
  )
}

function statisticsFacts(statistics: EndpointStatistics | undefined) {
  if (statistics === undefined) return []
  const { latencyP50Ms, latencyP95Ms, oldestPendingAt } = statistics
  const isMeasured = latencyP95Ms > 0
  return [
    ['Counted from', <Time key="from" at={statistics.from} />],
    ['Success', successText(statistics) ?? '–'],
    ['Deliveries', count(statistics.deliveryCount)],
    ['Delivered', count(statistics.deliveredCount)],
    ['Failed', count(statistics.failedCount)],
    ['Attempts', count(statistics.attemptCount)],
    ['Pending', count(statistics.pendingCount)],
    ['Oldest pending', oldestPendingAt && <Time key="oldest" at={oldestPendingAt} />],
    ['p50', isMeasured ? durationText(latencyP50Ms) : undefined],
    ['p95', isMeasured ? durationText(latencyP95Ms) : undefined],
  ] as const
}
