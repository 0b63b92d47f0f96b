import { type RefObject, useEffect, useRef } from 'react'

/** How far down the page counts as reading. */
const SCROLLED_PX = 40

/**
 * Whether the viewer reads the rows: the pointer or the focus is on them, or the page is scrolled.
 *
 * @param rows selects them in the place
 * @param onEnd called when the viewer stops
 */
export function useReading(
  place: RefObject<HTMLElement | null>,
  rows: string,
  onEnd: () => void,
): { readonly current: boolean } {
  const reading = useRef(false)
  const latest = useRef(onEnd)
  latest.current = onEnd
  useEffect(() => {
    const element = place.current
    if (element === null) return undefined
    let isOver = false
    const update = () => {
      const focused = document.activeElement?.closest(rows)
      const isFocused = focused != null && element.contains(focused)
      const now = isOver || isFocused || window.scrollY > SCROLLED_PX
      if (reading.current === now) return
      reading.current = now
      if (!now) latest.current()
    }
    const over = (event: PointerEvent) => {
      const { target } = event
      isOver = target instanceof Element && target.closest(rows) !== null
      update()
    }
    const leave = () => {
      isOver = false
      update()
    }
    element.addEventListener('pointerover', over)
    element.addEventListener('pointerleave', leave)
    element.addEventListener('focusin', update)
    // The focus is nowhere yet while it moves.
    const focusout = () => queueMicrotask(update)
    element.addEventListener('focusout', focusout)
    window.addEventListener('scroll', update, { passive: true })
    return () => {
      element.removeEventListener('pointerover', over)
      element.removeEventListener('pointerleave', leave)
      element.removeEventListener('focusin', update)
      element.removeEventListener('focusout', focusout)
      window.removeEventListener('scroll', update)
    }
  }, [place, rows])
  return reading
}
