import { useState } from 'react'
import { Button } from '../../ui/controls/button.tsx'
import { Dialog } from '../../ui/controls/dialog.tsx'
import { Failure } from '../../ui/lists/failure.tsx'
import { RunProgress } from './run-progress.tsx'
import { useRun } from './use-run.ts'

/** Settles what is due, after a confirmation, and shows how far it is. */
export function RunSettlement({
  businessId,
}: {
  /** Empty: every business that is due. */
  readonly businessId: string
}) {
  const [isOpen, setOpen] = useState(false)
  const [isForced, setForced] = useState(false)
  const { run, start, reset } = useRun(businessId)
  const whose = businessId === '' ? 'of every business' : 'of this business'
  return (
    <>
      <Button
        kind="primary"
        onClick={() => {
          // A run that goes on is shown again.
          if (run.state !== 'running') reset()
          setOpen(true)
        }}
      >
        Settle now
      </Button>
      <Dialog title="Settle now" isOpen={isOpen} onClose={() => setOpen(false)}>
        {run.state === 'idle' ? (
          <>
            <p>
              Makes the payments {whose} available that are {isForced ? 'received' : 'due'}, less
              their fees. It cannot be undone.
            </p>
            {businessId !== '' && (
              <label className="choice">
                <input
                  type="checkbox"
                  checked={isForced}
                  onChange={(event) => setForced(event.target.checked)}
                />{' '}
                Also payments that are not due yet
              </label>
            )}
          </>
        ) : (
          <RunProgress run={run} />
        )}
        {run.error !== undefined && (
          <Failure error={run.error} onRetry={() => void start(isForced)} />
        )}
        <div className="dialog-buttons">
          <Button onClick={() => setOpen(false)}>
            {run.state === 'idle' ? 'Cancel' : 'Close'}
          </Button>
          {run.state === 'idle' && (
            <Button kind="primary" onClick={() => void start(isForced && businessId !== '')}>
              Settle
            </Button>
          )}
        </div>
      </Dialog>
    </>
  )
}
