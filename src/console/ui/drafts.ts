import { type RefCallback, useCallback } from 'react'
import { useSession } from '../session/session.tsx'
import { useViewScope } from '../session/view-scope.tsx'

/** Unsent inputs by the names of their forms: names and values of controls. */
const drafts = new Map<string, readonly (readonly [name: string, value: string])[]>()

/**
 * Keeps the inputs of a form until it is sent or cancelled, so that nothing is lost by Escape, Back or the end of a
 * session: the next form of the same name restores them. Passwords and files are not kept.
 *
 * @param name from `useDraftName`
 */
export function useDraft(name: string): RefCallback<HTMLFormElement> {
  return useCallback(
    (form) => {
      if (form === null) return undefined
      const keep = () => drafts.set(name, typedIn(form))
      const kept = drafts.get(name)
      if (kept) queueMicrotask(() => restore(form, kept))
      form.addEventListener('input', keep)
      form.addEventListener('change', keep)
      return () => {
        form.removeEventListener('input', keep)
        form.removeEventListener('change', keep)
      }
    },
    [name],
  )
}

/** Names a form by the viewer and the page. @param about the kind of the form, and its object */
export function useDraftName(...about: readonly string[]): string {
  const { id } = useSession()
  const { businessId, live } = useViewScope()
  return [id, window.location.pathname, businessId, live, ...about].join(' ')
}

export function dropDraft(name: string): void {
  drafts.delete(name)
}

export function dropDrafts(): void {
  drafts.clear()
}

type Control = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement

function controlsOf(form: HTMLFormElement): readonly Control[] {
  return [...form.elements].filter(
    (each): each is Control =>
      (each instanceof HTMLInputElement && !/^(password|file|hidden)$/.test(each.type)) ||
      each instanceof HTMLSelectElement ||
      each instanceof HTMLTextAreaElement,
  )
}

const isTicked = (control: Control): boolean | undefined =>
  control instanceof HTMLInputElement && /^(checkbox|radio)$/.test(control.type)
    ? control.checked
    : undefined

function typedIn(form: HTMLFormElement): (readonly [string, string])[] {
  return controlsOf(form)
    .filter((control) => isTicked(control) !== false)
    .map(({ name, value }) => [name, value] as const)
}

/** Restores values as if they were typed, so that React notices them. */
function restore(form: HTMLFormElement, kept: readonly (readonly [string, string])[]): void {
  for (const control of controlsOf(form)) {
    const values = kept.filter(([name]) => name === control.name).map(([, value]) => value)
    const isOn = isTicked(control)
    if (isOn !== undefined) {
      if (isOn !== values.includes(control.value)) control.click()
    } else if (values[0] !== undefined && values[0] !== control.value) {
      Object.getOwnPropertyDescriptor(Object.getPrototypeOf(control), 'value')?.set?.call(
        control,
        values[0],
      )
      control.dispatchEvent(new Event('input', { bubbles: true }))
      control.dispatchEvent(new Event('change', { bubbles: true }))
    }
  }
}
