import { useState } from 'react'
import { count, naira } from '../../format/money.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Dialog } from '../../ui/controls/dialog.tsx'
import { amountOf, type Group, type Outcome } from './outcome.ts'

/** Records what is missing, or has mismatches reviewed, after a confirmation. */
export function ApplyButton({
  group,
  outcomes,
  onApply,
}: {
  readonly group: Group
  readonly outcomes: readonly Outcome[]
  readonly onApply: (outcomes: readonly Outcome[]) => void
}) {
  const [isOpen, setOpen] = useState(false)
  const number = count(outcomes.length)
  const sum = outcomes.reduce((total, outcome) => total + amountOf(outcome), 0n)
  const label =
    group === 'missing' ? `Record ${number} that the bank confirms` : `Have ${number} reviewed`
  return (
    <>
      <Button kind="primary" onClick={() => setOpen(true)}>
        {label}
      </Button>
      <Dialog title={label} isOpen={isOpen} onClose={() => setOpen(false)}>
        <p>
          {group === 'missing'
            ? `A live bank is asked about each of the payments, ${naira(sum)} together, and those that it confirms are recorded and notified to their business. For a bank of the sandbox the statement is trusted.`
            : 'Each contradiction is queued in Review. The recorded payments do not change.'}
        </p>
        <div className="dialog-buttons">
          <Button onClick={() => setOpen(false)}>Cancel</Button>
          <Button
            kind="primary"
            onClick={() => {
              setOpen(false)
              onApply(outcomes)
            }}
          >
            {group === 'missing' ? 'Record' : 'Queue'}
          </Button>
        </div>
      </Dialog>
    </>
  )
}
