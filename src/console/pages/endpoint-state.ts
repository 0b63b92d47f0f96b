import {
  DisabledReason,
  type Endpoint,
  type EndpointStatistics,
  EndpointStatus,
} from '../../../gen/inflow/webhook/v1/endpoint_pb.ts'
import type { Tone } from '../ui/values.tsx'

interface EndpointState {
  readonly tone: Tone
  readonly label: string
  /** The order in lists: what needs a look comes first. */
  readonly rank: number
}

/** The state of an endpoint in a word or two. */
export function stateOf({ status, disabledReason, failingSince }: Endpoint): EndpointState {
  if (status === EndpointStatus.DISABLED) {
    if (disabledReason === DisabledReason.REQUESTED)
      return { tone: 'neutral', label: 'Disabled', rank: 3 }
    const isGone = disabledReason === DisabledReason.GONE
    return { tone: 'bad', label: isGone ? 'Disabled: gone' : 'Disabled: failed', rank: 1 }
  }
  if (failingSince) return { tone: 'bad', label: 'Failing', rank: 0 }
  return { tone: 'good', label: 'Enabled', rank: 2 }
}

/** What needs a look first, and then the newest. */
export function failingFirst(endpoints: readonly Endpoint[]): Endpoint[] {
  return endpoints.toSorted((a, b) => stateOf(a).rank - stateOf(b).rank)
}

/** The share of attempts that the receiver acknowledged, `99.2 %`; undefined: there was none. */
export function successText(statistics: EndpointStatistics | undefined): string | undefined {
  if (statistics === undefined) return undefined
  const { deliveredCount, attemptCount } = statistics
  if (attemptCount === 0n) return undefined
  // Rounded down: 100 % means that none failed.
  return `${Math.floor((deliveredCount / Number(attemptCount)) * 1000) / 10} %`
}

const REASONS: ReadonlyMap<DisabledReason, string> = new Map([
  [DisabledReason.REQUESTED, 'An operator disabled it'],
  [DisabledReason.GONE, 'The receiver responded 410 Gone'],
  [DisabledReason.FAILING, 'No attempt succeeded for five days'],
])

/** Why an endpoint is disabled; undefined: it is enabled. */
export function disabledBecause({ disabledReason }: Endpoint): string | undefined {
  return REASONS.get(disabledReason)
}
