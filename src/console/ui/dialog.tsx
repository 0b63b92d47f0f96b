import { Dialog as Base } from '@base-ui/react/dialog'
import type { ReactNode } from 'react'

interface DialogProps {
  readonly title: string
  readonly isOpen: boolean
  readonly onClose: () => void
  readonly mustDecide?: boolean
  readonly children: ReactNode
}

/** @param mustDecide whether Escape and clicks outside of the dialog do not close it */
export function Dialog({ title, isOpen, onClose, mustDecide = false, children }: DialogProps) {
  const onOpenChange = (open: boolean, details: Base.Root.ChangeEventDetails) => {
    if (open) return
    if (mustDecide) details.cancel()
    else onClose()
  }
  return (
    <Base.Root open={isOpen} onOpenChange={onOpenChange} disablePointerDismissal={mustDecide}>
      <Base.Portal>
        <Base.Backdrop className="backdrop" />
        <Base.Popup className="dialog">
          <Base.Title className="dialog-title">{title}</Base.Title>
          {children}
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  )
}
