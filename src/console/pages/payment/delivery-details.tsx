import { useQuery } from '@connectrpc/connect-query'
import {
  type Attempt,
  HeaderOmission,
  type WebhookHeader,
  type WebhookRequest,
} from '../../../../gen/inflow/webhook/v1/delivery_pb.ts'
import { WebhookService } from '../../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { curlOfWebhook } from '../../format/curl.ts'
import { Code } from '../../ui/controls/code.tsx'
import { CopyButton } from '../../ui/controls/copy-button.tsx'
import { PageLink } from '../../ui/href.tsx'
import { Failure } from '../../ui/lists/failure.tsx'
import { Waiting } from '../../ui/lists/waiting.tsx'
import { Facts } from '../../ui/page.tsx'
import { Id } from '../../ui/values.tsx'

/** An attempt of a delivery: what was sent, and what the receiver answered. */
export function AttemptDetails({
  deliveryId,
  endpointId,
  attempt,
}: {
  readonly deliveryId: string
  readonly endpointId: string
  readonly attempt: Attempt
}) {
  const read = useQuery(WebhookService.method.getDelivery, { deliveryId }, { staleTime: 60_000 })
  const status = attempt.statusCode > 0 ? `HTTP ${attempt.statusCode}` : 'none'
  return (
    <>
      <Facts
        facts={[
          ['Response', `${status}, after ${attempt.latencyMs} ms`],
          ['Error', attempt.error],
          [
            'Delivery',
            <PageLink key="delivery" to={`/webhooks/deliveries/${deliveryId}`}>
              {deliveryId}
            </PageLink>,
          ],
          ['Endpoint', <Id key="endpoint" text={endpointId} charsMax={30} />],
        ]}
      />
      {attempt.responseBody !== '' && <Code title="Response body" text={attempt.responseBody} />}
      {read.isPending && <Waiting rows={4} />}
      {read.error && <Failure error={read.error} onRetry={() => void read.refetch()} />}
      {read.data && <RequestDetails request={read.data.request} />}
    </>
  )
}

/** The request with its headers; absent once the event or the endpoint is deleted. */
export function RequestDetails({ request }: { readonly request: WebhookRequest | undefined }) {
  if (request === undefined) {
    return <p className="faint">The event or the endpoint was deleted, and the request with it.</p>
  }
  const { method, url, headers, body } = request
  return (
    <div className="request">
      <header>
        <code>
          {method} {url}
        </code>
        <CopyButton
          text={curlOfWebhook(request)}
          what="the request as a curl command"
          label="Copy as curl"
        />
      </header>
      <table className="headers" aria-label="Headers of the request">
        <tbody>
          {headers.map((header) => (
            <tr key={header.name}>
              <th scope="row">
                <code>{header.name}</code>
              </th>
              <td>
                <HeaderValue header={header} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <Code title="Request body" text={body} />
    </div>
  )
}

const OMITTED: Readonly<Record<number, string>> = {
  [HeaderOmission.SECRET]: 'secret',
  [HeaderOmission.BY_ATTEMPT]: 'differs by attempt, and is not stored',
}

function HeaderValue({ header: { value, omission } }: { readonly header: WebhookHeader }) {
  const why = OMITTED[omission]
  return why === undefined ? <code>{value}</code> : <span className="faint">{why}</span>
}
