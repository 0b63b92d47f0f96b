import { Action } from '../../../../gen/inflow/reconciliation/v1/statement_pb.ts'
import { Status, type Tone } from '../../ui/status.tsx'
import type { Outcome } from './outcome.ts'

const ACTIONS: Readonly<Partial<Record<Action, readonly [Tone, string]>>> = {
  [Action.RECORDED]: ['good', 'Recorded'],
  [Action.UNMATCHED]: ['waiting', 'Recorded as unmatched'],
  [Action.REVIEW]: ['waiting', 'In review'],
  [Action.REJECTED]: ['bad', 'Not confirmed'],
  [Action.RETRY]: ['waiting', 'Undecided'],
}

/** What was done about it, and why. */
export function Became({ outcome: { action, cause } }: { readonly outcome: Outcome }) {
  const [tone, name] = ACTIONS[action] ?? []
  return (
    <>
      {tone && name && <Status tone={tone}>{name}</Status>} <span className="faint">{cause}</span>
    </>
  )
}
