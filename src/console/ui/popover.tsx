import { type ReactNode, useEffect, useId, useRef, useState } from 'react'
import { Icon } from './icons.tsx'

interface PopoverProps {
  readonly label: ReactNode
  readonly isSet?: boolean
  readonly kind?: string
  readonly children: ReactNode
}

/**
 * A button that opens a small panel below it. Escape or a click elsewhere closes the panel.
 *
 * @param isSet whether the filter is set, which marks the button
 * @param kind the classes of a button that is not a chip
 */
export function Popover({ label, isSet = false, kind, children }: PopoverProps) {
  const id = useId()
  const button = useRef<HTMLButtonElement>(null)
  const popup = useRef<HTMLDivElement>(null)
  const [isOpen, setOpen] = useState(false)
  useEffect(() => {
    if (!isOpen || !button.current || !popup.current) return undefined
    const [from, panel] = [button.current, popup.current]
    const follow = () => place(panel, from)
    panel.querySelector<HTMLElement>('input:checked, input, select, button')?.focus()
    const done = new AbortController()
    const { signal } = done
    window.addEventListener('scroll', follow, { capture: true, passive: true, signal })
    window.addEventListener('resize', follow, { signal })
    return () => done.abort()
  }, [isOpen])
  return (
    <>
      <button
        ref={button}
        type="button"
        className={kind ?? (isSet ? 'chip set' : 'chip')}
        aria-expanded={isOpen}
        popoverTarget={id}
      >
        {label}
        <Icon name="down" size={12} />
      </button>
      <div
        ref={popup}
        id={id}
        popover="auto"
        className="popup"
        onBeforeToggle={({ newState, currentTarget }) => {
          setOpen(newState === 'open')
          if (newState === 'open' && button.current) place(currentTarget, button.current)
        }}
      >
        {isOpen && children}
      </div>
    </>
  )
}

/** The largest width of a panel, which equals that in the style, and its distance from the button and the window. */
const WIDTH_MAX = 420
const GAP = 4
const EDGE = 12

/**
 * Places a panel below its button, or above it if there is more room. If the widest panel fits on neither side of the
 * button, it is placed at the nearer edge of the window.
 */
function place(panel: HTMLElement, button: HTMLElement): void {
  const { left, right, top, bottom } = button.getBoundingClientRect()
  const { clientWidth: width, clientHeight: height } = document.documentElement
  const widest = Math.min(WIDTH_MAX, width - 2 * EDGE)
  const { style } = panel
  const isBelow = height - bottom >= top
  style.top = isBelow ? `${bottom + GAP}px` : 'auto'
  style.bottom = isBelow ? 'auto' : `${height - top + GAP}px`
  style.maxHeight = `${(isBelow ? height - bottom : top) - GAP - EDGE}px`
  const fitsLeft = left + widest <= width - EDGE
  const fitsRight = right - widest >= EDGE
  const isAtLeft = fitsLeft || (!fitsRight && left + right <= width)
  style.left = isAtLeft ? `${fitsLeft ? left : EDGE}px` : 'auto'
  style.right = isAtLeft ? 'auto' : `${fitsRight ? width - right : EDGE}px`
}
