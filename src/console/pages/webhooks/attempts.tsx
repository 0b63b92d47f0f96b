import {
  type Attempt,
  type Delivery,
  DeliveryStatus,
} from '../../../../gen/inflow/webhook/v1/delivery_pb.ts'
import { durationText } from '../../format/time.ts'
import { Code } from '../../ui/controls/code.tsx'
import { Status } from '../../ui/status.tsx'
import { Time } from '../../ui/values.tsx'

/** The attempts, oldest first; each opens in place. What is still to happen is grey. */
export function Attempts({
  delivery,
  attempts,
}: {
  readonly delivery: Delivery
  readonly attempts: readonly Attempt[]
}) {
  const isPending = delivery.status === DeliveryStatus.PENDING
  const earlier = delivery.attemptCount - attempts.length
  return (
    <ol className="attempts">
      {earlier > 0 && <li className="faint">{earlier} earlier attempts are not listed.</li>}
      {attempts.map((attempt, index) => (
        <AttemptShown
          key={attempt.number}
          attempt={attempt}
          isOpen={index === attempts.length - 1}
        />
      ))}
      {isPending && (
        <li className="faint next-attempt">
          {attempts.length === 0 ? 'First attempt' : 'Next attempt'} <Time at={delivery.dueAt} />
        </li>
      )}
      {!isPending && attempts.length === 0 && <li className="faint">It was never sent.</li>}
    </ol>
  )
}

function AttemptShown({
  attempt,
  isOpen,
}: {
  readonly attempt: Attempt
  readonly isOpen: boolean
}) {
  const { number, statusCode, latencyMs, error, responseBody } = attempt
  return (
    <li>
      <details open={isOpen}>
        <summary>
          <span>Attempt {number}</span>
          <Status tone={error === '' ? 'good' : 'bad'}>
            {statusCode === 0 ? 'No response' : String(statusCode)}
          </Status>
          <span className="number">{durationText(latencyMs)}</span>
          {error !== '' && <span className="fault">{error}</span>}
          <Time at={attempt.startedAt} />
        </summary>
        {responseBody === '' ? (
          <p className="faint">The response has no body.</p>
        ) : (
          <Code title="Response body, its first 4 KiB" text={responseBody} />
        )}
      </details>
    </li>
  )
}
