import { type RefObject, useEffect, useRef } from 'react'
import { isTyping } from '../../app/typing.ts'

/** What a key moves by. */
const STEPS: Readonly<Record<string, number>> = { j: 1, s: 1, k: -1 }

/**
 * `j` and `s` open the next item, `k` the one before; `a` and `r` press the button of the open item that is marked
 * with them by `data-key`.
 *
 * @param at the index of the open item; -1: none
 * @returns refers to the list
 */
export function useReviewKeys(
  at: number,
  open: (index: number) => void,
): RefObject<HTMLOListElement | null> {
  const list = useRef<HTMLOListElement>(null)
  const latest = useRef({ at, open })
  latest.current = { at, open }
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return
      if (isTyping(event.target) || document.querySelector('[role="dialog"]') !== null) return
      const step = STEPS[event.key]
      const now = latest.current
      if (step !== undefined) now.open(Math.max(0, now.at + step))
      else if (event.key === 'a' || event.key === 'r') press(list.current, event.key)
      else return
      event.preventDefault()
    }
    window.addEventListener('keydown', onKey)
    return () => window.removeEventListener('keydown', onKey)
  }, [])
  useEffect(() => {
    if (at < 0) return
    list.current?.children[at]?.querySelector<HTMLElement>('[aria-expanded]')?.focus()
  }, [at])
  return list
}

function press(list: HTMLElement | null, key: string): void {
  list?.querySelector<HTMLElement>(`[data-key="${key}"] :is(button, a)`)?.click()
}
