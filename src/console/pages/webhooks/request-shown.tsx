import {
  HeaderOmission,
  type WebhookHeader,
  type WebhookRequest,
} from '../../../../gen/inflow/webhook/v1/delivery_pb.ts'
import { curlOfWebhook } from '../../format/curl.ts'
import { Code } from '../../ui/controls/code.tsx'
import { CopyButton } from '../../ui/controls/copy-button.tsx'

/** A request with its headers and body, as the next attempt would send it. */
export function RequestShown({ request }: { readonly request: WebhookRequest }) {
  return (
    <>
      <p className="request-line">
        <code>
          {request.method} {request.url}
        </code>
        <CopyButton text={curlOfWebhook(request)} what="the request as curl" label="Copy as curl" />
      </p>
      <table className="headers" aria-label="Headers">
        <tbody>
          {request.headers.map((header) => (
            <tr key={header.name}>
              <th scope="row">
                <code>{header.name}</code>
              </th>
              <td>{valueShown(header)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <Code title="Body" text={request.body} />
      <p className="faint hint">
        As the next attempt would send it. The body of earlier attempts was the same.
      </p>
    </>
  )
}

function valueShown({ value, omission }: WebhookHeader) {
  if (omission === HeaderOmission.SECRET) return <span className="faint">secret</span>
  if (omission === HeaderOmission.BY_ATTEMPT) {
    return <span className="faint">differs by attempt, and is not stored</span>
  }
  return <code>{value}</code>
}
