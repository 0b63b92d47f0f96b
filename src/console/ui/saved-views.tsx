import { type FormEvent, useState } from 'react'
import { useLocation, useSearchParams } from 'wouter'
import { Button } from './button.tsx'
import { Popover } from './popover.tsx'

const KEY = 'inflow.views'
const VIEWS_MAX = 20

/** Parameters of the URL that a view leaves as they are, so that it serves each business and mode. */
const SCOPE = ['business', 'mode']

/** The filters of a view, as a query, by its name, by the path of its page. */
type Views = Readonly<Record<string, Readonly<Record<string, string>>>>

/** Keeps the filters of a list by name, in this browser. Absent on the page of one object. */
export function SavedViews() {
  const [path] = useLocation()
  const [params, setParams] = useSearchParams()
  const [views, setViews] = useState(readViews)
  const [name, setName] = useState('')
  if (path.lastIndexOf('/') > 0) return null
  const own = views[path] ?? {}
  const filters = filtersOf(params)
  const shown = Object.keys(own).find((each) => own[each] === filters)
  const change = (next: Readonly<Record<string, string>>) => {
    const all = { ...views, [path]: next }
    localStorage.setItem(KEY, JSON.stringify(all))
    setViews(all)
  }
  const show = (view: string) =>
    setParams((current) => {
      const scope = SCOPE.flatMap((each) => current.getAll(each).map((value) => [each, value]))
      return [...new URLSearchParams(view), ...scope] as [string, string][]
    })
  const save = (event: FormEvent) => {
    event.preventDefault()
    change({ ...own, [name.trim()]: filters })
    setName('')
  }
  const remove = (removed: string) =>
    change(Object.fromEntries(Object.entries(own).filter(([each]) => each !== removed)))
  const isFull = Object.keys(own).length >= VIEWS_MAX
  return (
    <Popover label={shown ? `View: ${shown}` : 'Views'} isSet={shown !== undefined}>
      {Object.entries(own).map(([each, view]) => (
        <div key={each} className="saved-view">
          <Button kind="quiet" onClick={() => show(view)}>
            {each}
          </Button>
          <Button kind="quiet" aria-label={`Remove the view ${each}`} onClick={() => remove(each)}>
            Remove
          </Button>
        </div>
      ))}
      <form onSubmit={save}>
        <label className="field">
          Save the filters as
          <input value={name} maxLength={40} onChange={(event) => setName(event.target.value)} />
        </label>
        <div className="dialog-buttons">
          <Button
            type="submit"
            kind="primary"
            disabled={name.trim() === '' || filters === '' || isFull}
          >
            Save view
          </Button>
        </div>
        {filters === '' && <p className="hint">Choose a filter first.</p>}
        {isFull && <p className="hint">A list has at most {VIEWS_MAX} views: remove one first.</p>}
      </form>
    </Popover>
  )
}

/** The parameters that a view keeps, in one order. */
function filtersOf(params: URLSearchParams): string {
  const filters = new URLSearchParams(params)
  for (const each of SCOPE) filters.delete(each)
  filters.sort()
  return filters.toString()
}

/** Reads the views of this browser; none if what is stored is not theirs. */
function readViews(): Views {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(KEY) ?? '{}')
    return typeof stored === 'object' && stored !== null ? (stored as Views) : {}
  } catch {
    return {}
  }
}
