import { ConnectError } from '@connectrpc/connect'
import { BadRequestSchema, ErrorInfoSchema } from '../../../../gen/google/rpc/error_details_pb.ts'
import { Button } from '../controls/button.tsx'

/** What a call failed with, in words: its text, the fields at fault, and the id to find it in the log by. */
export function Failure({
  error,
  onRetry,
  isShown,
}: {
  readonly error: unknown
  readonly onRetry?: (() => void) | undefined
  /** Whether a field shows its fault itself. */
  readonly isShown?: (field: string) => boolean
}) {
  const { text, requestId, docUrl, ...failure } = failureOf(error)
  const fields = failure.fields.filter(({ field }) => !isShown?.(field))
  return (
    <div className="failure" role="alert">
      <p className="failure-text">{text}</p>
      {fields.length > 0 && (
        <ul>
          {fields.map(({ field, description }) => (
            <li key={field}>
              <code>{field}</code> {description}
            </li>
          ))}
        </ul>
      )}
      <p className="faint">
        {requestId !== '' && (
          <>
            Request <code>{requestId}</code>
          </>
        )}
        {docUrl !== '' && (
          <>
            {' · '}
            <a href={docUrl}>About this error</a>
          </>
        )}
      </p>
      {onRetry && <Button onClick={onRetry}>Retry</Button>}
    </div>
  )
}

/** The parts of an error that a viewer needs. */
export function failureOf(error: unknown) {
  const failure = ConnectError.from(error)
  const [info] = failure.findDetails(ErrorInfoSchema)
  const [violations] = failure.findDetails(BadRequestSchema)
  return {
    text: failure.rawMessage || 'The service cannot be reached',
    reason: info?.reason ?? '',
    fields: violations?.fieldViolations ?? [],
    requestId: info?.metadata['request_id'] ?? '',
    docUrl: info?.metadata['doc_url'] ?? '',
  }
}
