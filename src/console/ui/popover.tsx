import { Popover as Base } from '@base-ui/react/popover'
import type { ReactNode } from 'react'
import { Icon } from './icons.tsx'

/**
 * A button that opens a small panel below it.
 *
 * @param isSet marks a filter that is set
 * @param kind the classes of a button that is no chip
 * @param name of the button for screen readers, if the label alone does not say it
 */
export function Popover({
  label,
  isSet = false,
  kind,
  name,
  children,
}: {
  readonly label: ReactNode
  readonly isSet?: boolean
  readonly kind?: string
  readonly name?: string
  readonly children: ReactNode
}) {
  return (
    <Base.Root>
      <Base.Trigger className={kind ?? (isSet ? 'chip set' : 'chip')} aria-label={name}>
        {label}
        <Icon name="down" size={12} />
      </Base.Trigger>
      <Base.Portal>
        <Base.Positioner sideOffset={4} align="start" className="floating">
          <Base.Popup className="popup">{children}</Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  )
}
