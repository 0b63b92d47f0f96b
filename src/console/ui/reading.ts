import { type RefObject, useEffect, useRef } from 'react'

/** The viewer counts as reading if the page is scrolled further than this. */
const SCROLLED_PX = 40

/**
 * Whether the viewer is reading the rows: the pointer is over the container, the focus is on a row, or the page
 * is scrolled.
 *
 * @param rows the selector of rows in the container
 * @param onEnd called when the viewer stops reading
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
    const enter = () => {
      isOver = true
      update()
    }
    const leave = () => {
      isOver = false
      update()
    }
    const done = new AbortController()
    const { signal } = done
    element.addEventListener('pointerenter', enter, { signal })
    element.addEventListener('pointerleave', leave, { signal })
    element.addEventListener('focusin', update, { signal })
    // While the focus moves, no element has it yet.
    element.addEventListener('focusout', () => queueMicrotask(update), { signal })
    window.addEventListener('scroll', update, { passive: true, signal })
    return () => done.abort()
  }, [place, rows])
  return reading
}
