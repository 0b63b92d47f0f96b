import { useState } from 'react'
import type { Bank } from '../../../../gen/inflow/type/v1/bank_pb.ts'
import { count, naira } from '../../format/money.ts'
import { Button } from '../../ui/controls/button.tsx'
import { PageLink } from '../../ui/href.tsx'
import { Failure } from '../../ui/lists/failure.tsx'
import { ApplyButton } from './apply-button.tsx'
import { ExportButton } from './export-button.tsx'
import { amountOf, type Group, isOpen, type Outcome } from './outcome.ts'
import { OutcomeTable } from './outcome-table.tsx'
import type { Comparison as ComparisonState } from './use-comparison.ts'

const GROUPS: readonly { readonly group: Group; readonly title: string; readonly note: string }[] =
  [
    { group: 'matched', title: 'Matched', note: 'recorded with the same facts' },
    { group: 'missing', title: 'Missing here', note: 'in the statement, not recorded' },
    { group: 'extra', title: 'Missing there', note: 'recorded, not in the statement' },
    { group: 'mismatched', title: 'Mismatched', note: 'recorded with other facts' },
    { group: 'unmatched', title: 'Unmatched', note: 'no open account has the number' },
    { group: 'repeated', title: 'Repeated', note: 'twice in the statement' },
  ]

/** The groups that are shown also when they are empty. */
const ALWAYS: ReadonlySet<Group> = new Set(['matched', 'missing', 'extra', 'mismatched'])

/** What a comparison found: counts and sums, the payments of a group, and what can be done about them. */
export function Comparison({
  comparison,
  bank,
  onApply,
  onStop,
}: {
  readonly comparison: ComparisonState
  readonly bank: Bank
  readonly onApply: (outcomes: readonly Outcome[]) => void
  readonly onStop: () => void
}) {
  const [chosen, choose] = useState<Group>('missing')
  const { state, outcomes, error, lookedForExtra } = comparison
  const shown = outcomes.filter(({ group }) => group === chosen)
  const open = shown.filter(isOpen)
  return (
    <>
      {state === 'running' && <Progress comparison={comparison} onStop={onStop} />}
      {error !== undefined && <Failure error={error} />}
      <fieldset className="figures groups">
        <legend className="hidden">Findings</legend>
        {GROUPS.map(({ group, title, note }) => (
          <GroupButton
            key={group}
            {...{ title, note }}
            outcomes={outcomes.filter((outcome) => outcome.group === group)}
            isAlways={ALWAYS.has(group)}
            isChosen={group === chosen}
            onChoose={() => choose(group)}
          />
        ))}
      </fieldset>
      {state === 'done' && !lookedForExtra && error === undefined && (
        <p className="faint">
          No row says when it was paid: payments that the statement lacks were not looked for.
        </p>
      )}
      <div className="group-actions">
        {state === 'done' && open.length > 0 && (
          <ApplyButton group={chosen} outcomes={open} onApply={onApply} />
        )}
        {shown.length > 0 && <ExportButton group={chosen} outcomes={shown} bank={bank} />}
        {chosen === 'unmatched' && shown.length > 0 && (
          <PageLink to="/review" query={{ kind: 'unmatched' }}>
            Assign or return them in Review
          </PageLink>
        )}
      </div>
      <OutcomeTable group={chosen} outcomes={shown} isDone={state === 'done'} />
    </>
  )
}

function GroupButton({
  title,
  note,
  outcomes,
  isAlways,
  isChosen,
  onChoose,
}: {
  readonly title: string
  readonly note: string
  readonly outcomes: readonly Outcome[]
  readonly isAlways: boolean
  readonly isChosen: boolean
  readonly onChoose: () => void
}) {
  if (outcomes.length === 0 && !isAlways) return null
  const sum = outcomes.reduce((total, outcome) => total + amountOf(outcome), 0n)
  return (
    <button
      type="button"
      className={isChosen ? 'figure chosen' : 'figure'}
      aria-pressed={isChosen}
      onClick={onChoose}
    >
      <span className="figure-title">{title}</span>
      <span className="figure-value">{count(outcomes.length)}</span>
      <span className="money">{naira(sum)}</span>
      <span className="faint">{note}</span>
    </button>
  )
}

function Progress({
  comparison: { step, done, total },
  onStop,
}: {
  readonly comparison: ComparisonState
  readonly onStop: () => void
}) {
  return (
    <div className="comparison-progress">
      <progress aria-label={step} {...(total > 0 && { max: total, value: done })} />
      <p role="status">
        {step}: {count(done)}
        {total > 0 && ` of ${count(total)}`} payments
      </p>
      <Button onClick={onStop}>Stop</Button>
    </div>
  )
}
