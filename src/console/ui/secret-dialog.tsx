import { useState } from 'react'
import { Button } from './button.tsx'
import { CommandLine } from './code.tsx'
import { Dialog } from './dialog.tsx'

/** Shows a secret once. It stays until the viewer says that it is kept. */
export function SecretDialog({
  title,
  secret,
  onKept,
}: {
  readonly title: string
  /** Undefined: closed. */
  readonly secret: string | undefined
  readonly onKept: () => void
}) {
  const [isKept, setKept] = useState(false)
  const close = () => {
    setKept(false)
    onKept()
  }
  return (
    <Dialog title={title} isOpen={secret !== undefined} onClose={close} mustDecide>
      <p>It is shown only now. Inflow stores a hash of it and cannot show it again.</p>
      <CommandLine text={secret ?? ''} />
      <label className="choice">
        <input
          type="checkbox"
          checked={isKept}
          onChange={(event) => setKept(event.target.checked)}
        />{' '}
        I have kept it
      </label>
      <div className="dialog-buttons">
        <Button kind="primary" disabled={!isKept} onClick={close}>
          Close
        </Button>
      </div>
    </Dialog>
  )
}
