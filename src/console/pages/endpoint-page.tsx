import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { skipToken, useQuery } from '@connectrpc/connect-query'
import { useMemo } from 'react'
import { useLocation, useParams } from 'wouter'
import { OverviewService } from '../../../gen/inflow/overview/v1/overview_service_pb.ts'
import { ResultKind } from '../../../gen/inflow/overview/v1/search_pb.ts'
import {
  DisabledReason,
  type Endpoint,
  type EndpointFailure,
  EndpointFailureSchema,
  EndpointProfile,
  EndpointSchema,
  type EndpointStatistics,
  EndpointStatisticsSchema,
  EndpointStatus,
  LegacySignatureSchema,
} from '../../../gen/inflow/webhook/v1/endpoint_pb.ts'
import {
  UpdateEndpointRequestSchema,
  WebhookService,
} from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { enumLabel } from '../format/enums.ts'
import { endpointName } from '../format/ids.ts'
import { count } from '../format/money.ts'
import { DAY, durationText, localField, msOf } from '../format/time.ts'
import { useSession } from '../session/session.tsx'
import { useHref, useShowObject, useUrlState } from '../session/view-scope.tsx'
import { Action } from '../ui/action.tsx'
import { Code } from '../ui/button.tsx'
import { Chart } from '../ui/chart.tsx'
import { columnsOf, MessageFacts } from '../ui/columns.tsx'
import { Table } from '../ui/list.tsx'
import { Empty, type Fact, Facts, Loaded, Page, Section } from '../ui/page.tsx'
import { BusinessLink, PageLink, Status, Time } from '../ui/values.tsx'
import { Deliveries } from './deliveries.tsx'
import {
  authenticationText,
  EndpointFields,
  FormatFields,
  readOptions,
  TEXT_SECRET,
} from './endpoint-form.tsx'
import { Rehearse } from './rehearse.tsx'
import { kindsText, stateOf, successText } from './webhooks-page.tsx'

const METHODS = WebhookService.method

/** One endpoint: its settings, statistics, actions and deliveries. */
export function EndpointPage() {
  const { id = '' } = useParams()
  const { endpoint, isMissing, read } = useEndpoint(id)
  useShowObject(endpoint)
  if (endpoint) return <Shown endpoint={endpoint} />
  return (
    <Page title="Endpoint">
      {isMissing ? (
        <Empty title="There is no such endpoint">
          <span>
            It was deleted, or belongs to another business. <code>{id}</code>
          </span>
        </Empty>
      ) : (
        <Loaded read={read} />
      )}
    </Page>
  )
}

/** Enough for all endpoints of a business, which can have 50 in each mode. */
const PAGE_SIZE = 200

/**
 * Finds an endpoint by its id. Links in lists name its business, so that one call is enough; without the business, a search
 * finds it.
 */
function useEndpoint(endpointId: string) {
  const { businessIds } = useSession()
  const [of] = useUrlState('of')
  const named = of !== '' ? of : businessIds.length === 1 ? (businessIds[0] ?? '') : ''
  const found = useQuery(
    OverviewService.method.search,
    named === '' ? { query: endpointId } : skipToken,
  )
  const result = found.data?.results.find(
    ({ kind, id }) => kind === ResultKind.ENDPOINT && id === endpointId,
  )
  const businessId = named !== '' ? named : result?.businessId
  const list = useQuery(
    METHODS.listEndpoints,
    businessId === undefined ? skipToken : { businessId, pageSize: PAGE_SIZE },
  )
  const error = found.error ?? list.error
  const isSearched = found.data !== undefined && result === undefined
  return {
    endpoint: list.data?.endpoints.find(({ id }) => id === endpointId),
    isMissing: error === null && (list.data !== undefined || isSearched),
    read: { data: undefined, error, refetch: found.error ? found.refetch : list.refetch },
  }
}

interface Props {
  readonly endpoint: Endpoint
}

function Shown({ endpoint }: Props) {
  const { id, businessId, options } = endpoint
  const { data } = useQuery(METHODS.getEndpointStatistics, { endpointIds: [id] })
  const statistics = data?.statistics[0]
  const { tone, label } = stateOf(endpoint, statistics)
  return (
    <Page
      title={endpointName(endpoint.url, endpoint.description)}
      actions={<EndpointActions endpoint={endpoint} />}
      isWide
    >
      <p className="state-line">
        <Status tone={tone}>{label}</Status>
        <Status tone="neutral">{endpoint.live ? 'Live' : 'Test'}</Status>
        {options?.blockedBy && (
          <span>
            {options.blockedBy.waitingCount} deliveries wait for{' '}
            <PageLink to={`/webhooks/deliveries/${options.blockedBy.deliveryId}`}>
              one that was not acknowledged
            </PageLink>
          </span>
        )}
      </p>
      <div className="fact-columns">
        <EndpointFacts endpoint={endpoint} />
        <Sending endpoint={endpoint} />
        {statistics ? <Statistics of={statistics} /> : <Facts facts={[]} />}
      </div>
      {statistics && statistics.deliveryCount > 0 && <EndpointCharts statistics={statistics} />}
      {statistics && statistics.failures.length > 0 && <Failures of={statistics.failures} />}
      <Section title="Deliveries">
        <Deliveries endpointId={id} businessId={businessId} />
      </Section>
    </Page>
  )
}

const REASONS: Readonly<Record<number, string>> = {
  [DisabledReason.REQUESTED]: 'An operator disabled it',
  [DisabledReason.GONE]: 'The receiver responded 410 Gone',
  [DisabledReason.FAILING]: 'No attempt succeeded for five days',
}

function EndpointFacts({ endpoint }: Props) {
  return (
    <MessageFacts
      schema={EndpointSchema}
      of={endpoint}
      facts={[
        'url',
        'id',
        ['Business', ({ businessId }) => <BusinessLink id={businessId} />],
        'description',
        ['Kinds', ({ kinds }) => kindsText(kinds) || 'The default kinds'],
        'createdAt',
        ['Failing since', 'failingSince'],
        'disabledAt',
        ['Because', ({ disabledReason }) => REASONS[disabledReason]],
      ]}
    />
  )
}

function Sending({ endpoint }: Props) {
  const { concurrency, options, secrets } = endpoint
  const certificate = options?.clientCertificate
  const signing = secrets.map(
    ({ createdAt, expiresAt, next }, index): Fact => [
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
    ],
  )
  return (
    <Facts
      facts={[
        ...formatFacts(endpoint),
        ...signing,
        ['Concurrency', `${concurrency} requests of each instance`],
        ['Rate limit', options?.rateLimit ? `${options.rateLimit} a second` : 'None'],
        ['Order', options?.ordered ? 'Strictly in order, one at a time' : 'As they come'],
        ['Headers', options?.headerNames.join(', ')],
        ['Authentication', authenticationText(options) ?? 'The signature only'],
        [
          'Certificate',
          certificate && (
            <span title={`SHA-256 ${certificate.fingerprintSha256}`}>
              {certificate.subject}, until <Time at={certificate.expiresAt} />
            </span>
          ),
        ],
      ]}
    />
  )
}

function formatFacts(endpoint: Endpoint): Fact[] {
  if (!isWiaxy(endpoint)) {
    const also = endpoint.wiaxyHeaders ? ', and the x-wiaxy headers' : ''
    return [['Profile', `Standard Webhooks${also}`]]
  }
  return [
    ['Profile', 'wiaxy'],
    ['Earlier signature', enumLabel(LegacySignatureSchema, endpoint.legacySignature)],
    ['Event name', endpoint.eventName],
    ['Payer', endpoint.payerAsArray ? 'As an array of one' : undefined],
  ]
}

/** The statistics of the last 24 hours. */
function Statistics({ of }: { readonly of: EndpointStatistics }) {
  const latency = (ms: number) => (of.latencyP95Ms > 0 ? durationText(ms) : undefined)
  return (
    <MessageFacts
      schema={EndpointStatisticsSchema}
      of={of}
      facts={[
        ['Counted from', 'from'],
        ['Success', () => successText(of) ?? '–'],
        ['Deliveries', 'deliveryCount'],
        'deliveredCount',
        'failedCount',
        ['Attempts', 'attemptCount'],
        ['Failed attempts', () => failedAttempts(of) > 0 && count(failedAttempts(of))],
        'pendingCount',
        'oldestPendingAt',
        ['p50', ({ latencyP50Ms }) => latency(latencyP50Ms)],
        ['p95', ({ latencyP95Ms }) => latency(latencyP95Ms)],
      ]}
    />
  )
}

/** The responses to the latest failed attempts, the most frequent first. */
function Failures({ of }: { readonly of: readonly EndpointFailure[] }) {
  return (
    <Section title="What fails">
      <Table
        label="What fails"
        columns={FAILURES}
        rows={of}
        keyOf={({ statusCode, error }) => `${statusCode} ${error}`}
        hrefOf={({ deliveryId }, href) => href(`/webhooks/deliveries/${deliveryId}`)}
      />
    </Section>
  )
}

const FAILURES = columnsOf(EndpointFailureSchema, [
  ['Answer', ({ statusCode }) => <Status tone="bad">{`${statusCode || 'None'}`}</Status>],
  ['Deliveries', 'deliveryCount'],
  ['Why', 'error'],
  [
    'Response',
    ({ responseBody }) => (
      <code className="endpoint-url" title={responseBody}>
        {responseBody.slice(0, RESPONSE_SHOWN)}
      </code>
    ),
    'wide',
  ],
  ['Last', 'lastAt'],
])

/** The most characters of a response that fit into a row. */
const RESPONSE_SHOWN = 60

type Hour = EndpointStatistics['hours'][number]

function failedAttempts({ attemptCount, deliveredCount }: Hour | EndpointStatistics): number {
  return Math.max(0, Number(attemptCount) - deliveredCount)
}

const whole = (value: number) => (Number.isInteger(value) ? String(value) : '')

/** Charts of the last 24 hours: acknowledged deliveries, failed attempts, and response times. */
function EndpointCharts({ statistics: { hours } }: { readonly statistics: EndpointStatistics }) {
  const { times, counts, latencies } = useMemo(() => {
    const line = (label: string, colour: string, of: (hour: Hour) => number | null) => ({
      label,
      colour,
      values: hours.map(of),
    })
    return {
      times: hours.map(({ from }) => (msOf(from) ?? 0) / 1_000),
      counts: [
        line('Delivered', '--good', ({ deliveredCount }) => deliveredCount),
        line('Failed attempts', '--bad', failedAttempts),
      ],
      latencies: [
        line('p50', '--accent', ({ latencyP50Ms }) => latencyP50Ms || null),
        line('p95', '--waiting', ({ latencyP95Ms }) => latencyP95Ms || null),
      ],
    }
  }, [hours])
  return (
    <div className="charts">
      <Section title="Delivered and failed attempts by hour">
        <Chart
          label="Delivered and failed attempts by hour"
          times={times}
          series={counts}
          format={whole}
        />
      </Section>
      <Section title="Latency by hour">
        <Chart label="Latency by hour" times={times} series={latencies} format={durationText} />
      </Section>
    </div>
  )
}

const isWiaxy = ({ profile }: Endpoint) => profile === EndpointProfile.WIAXY

/** The interval and the number of polls of a test event's delivery until its first attempt has ended. */
const TEST_MS = 700
const TEST_LOOKS_MAX = 40

/** The response of the receiver to a test event, shown when it arrives. */
function TestResult(sent: { readonly eventId: string; readonly endpointId: string }) {
  const { data } = useQuery(METHODS.listDeliveries, sent, {
    staleTime: 0,
    refetchInterval: ({ state }) => {
      const isAnswered = state.data?.deliveries[0]?.latestAttempt !== undefined
      return !isAnswered && state.dataUpdateCount < TEST_LOOKS_MAX && TEST_MS
    },
  })
  const delivery = data?.deliveries[0]
  const {
    statusCode = 0,
    error = '',
    latencyMs = 0,
    responseBody = '',
  } = delivery?.latestAttempt ?? {}
  return (
    <div aria-live="polite">
      <p>
        {delivery?.latestAttempt === undefined ? (
          <Status tone="waiting">Waiting for the response</Status>
        ) : (
          <>
            <Status tone={error === '' ? 'good' : 'bad'}>
              {error === '' ? 'Acknowledged' : 'Not acknowledged'}
            </Status>{' '}
            {error || statusCode} after {durationText(latencyMs)}
          </>
        )}
      </p>
      {responseBody !== '' && <Code title="Response" text={responseBody} />}
      <p>
        Recorded <PageLink to={`/events/${sent.eventId}`}>{sent.eventId}</PageLink>
        {delivery && (
          <>
            {', '}
            <PageLink to={`/webhooks/deliveries/${delivery.id}`}>its delivery</PageLink>
          </>
        )}
        .
      </p>
    </div>
  )
}

function EndpointActions({ endpoint }: Props) {
  const { id } = endpoint
  const isEnabled = endpoint.status === EndpointStatus.ENABLED
  const shared = { target: id, request: { endpointId: id } }
  return (
    <>
      {isEnabled && (
        <Action
          {...shared}
          method={METHODS.sendTestEvent}
          label="Send test"
          isReadLater
          says="An event of kind ENDPOINT_TEST is recorded and sent to this endpoint only, like any other event."
          result={({ eventId }) => <TestResult eventId={eventId} endpointId={id} />}
        />
      )}
      <Rehearse endpoint={endpoint} />
      {isEnabled && <Recover endpoint={endpoint} />}
      <Edit endpoint={endpoint} />
      {isWiaxy(endpoint) ? <RotateText endpoint={endpoint} /> : <Rotate endpoint={endpoint} />}
      {isWiaxy(endpoint) && (
        <Action
          {...shared}
          method={METHODS.switchSecret}
          label="Switch text"
          kind="danger"
          isOffered={endpoint.secrets.some(({ next }) => next)}
          says="Only the new text signs from now on: a receiver with the previous text refuses events."
        />
      )}
      <Switch endpoint={endpoint} isEnabled={isEnabled} />
      <Delete endpoint={endpoint} />
    </>
  )
}

function Recover({ endpoint: { id } }: Props) {
  return (
    <Action
      method={METHODS.recover}
      label="Recover"
      target={id}
      says="All deliveries since a time that failed, or wait for a retry, are sent again at once."
      request={(_form, { since }) => ({
        endpointId: id,
        since: since ?? timestampFromMs(Date.now() - DAY),
      })}
      fields={{ since: { value: localField(Date.now() - DAY) } }}
      result={({ recovered }) => <p>{count(recovered)} deliveries are sent again.</p>}
    />
  )
}

function Edit({ endpoint }: Props) {
  return (
    <Action
      method={METHODS.updateEndpoint}
      label="Edit"
      target={endpoint.id}
      says="Pending deliveries are sent to a new URL too. Headers and authentication belong to the URL's origin: enter them again if the origin changes."
      request={(form, { url, kinds = [], options }) => ({
        endpointId: endpoint.id,
        url: url === endpoint.url ? undefined : url,
        allKinds: kinds.length === 0,
        options: readOptions(form, options),
      })}
    >
      <EndpointFields endpoint={endpoint} />
      {isWiaxy(endpoint) && <FormatFields of={UpdateEndpointRequestSchema} endpoint={endpoint} />}
    </Action>
  )
}

function RotateText({ endpoint: { id } }: Props) {
  return (
    <Action
      method={METHODS.rotateSecret}
      label="Rotate text"
      target={id}
      says="Adds a new text. It signs only test events until you switch to it: send a test event first."
      request={{ endpointId: id }}
      fields={{ textSecret: TEXT_SECRET }}
      result={({ secret }) => (
        <p>
          {secret
            ? 'The receiver verifies test events with this text:'
            : 'The new text signs test events.'}
        </p>
      )}
      secret={({ secret }) => secret || undefined}
    />
  )
}

function Rotate({ endpoint: { id } }: Props) {
  return (
    <Action
      method={METHODS.rotateSecret}
      label="Rotate secret"
      target={id}
      says="Creates a new signing secret. The earlier ones also sign during the overlap, so that the receiver can switch."
      request={{ endpointId: id }}
      fields={{ overlap: { min: 0, max: 720, value: 24 } }}
      result={() => <p>The receiver verifies signatures with this secret from now on:</p>}
      secret={({ secret }) => secret}
    />
  )
}

function Switch({ endpoint: { id }, isEnabled }: Props & { readonly isEnabled: boolean }) {
  return (
    <Action
      key={String(isEnabled)}
      method={METHODS.updateEndpoint}
      label={isEnabled ? 'Disable' : 'Enable'}
      kind={isEnabled ? 'danger' : 'plain'}
      target={id}
      says={
        isEnabled
          ? 'Its deliveries are paused for as long as retries last, and then fail. Later events get no deliveries until it is enabled.'
          : 'Its paused deliveries are sent now, and its failure history is reset. Recover sends deliveries again that have failed since then.'
      }
      request={{ endpointId: id, enabled: !isEnabled }}
      isReadLater
    />
  )
}

function Delete({ endpoint: { id } }: Props) {
  const [, navigate] = useLocation()
  const href = useHref()
  return (
    <Action
      method={METHODS.deleteEndpoint}
      label="Delete"
      kind="danger"
      target={id}
      says="Its pending deliveries are dropped. This cannot be undone."
      request={{ endpointId: id }}
      onClosed={() => navigate(href('/webhooks'))}
    />
  )
}
