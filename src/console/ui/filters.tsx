import { type Timestamp, timestampFromMs } from '@bufbuild/protobuf/wkt'
import { type FormEvent, type ReactNode, useEffect, useId, useState } from 'react'
import { useLocation, useSearchParams } from 'wouter'
import type { Choice } from '../format/enums.ts'
import { localField } from '../format/time.ts'
import { useUrlState } from '../session/view-scope.tsx'
import { Button } from './button.tsx'
import { Popover } from './popover.tsx'

/** The chips above a list. Their choices are in the URL. */
export function FilterBar({ children }: { readonly children: ReactNode }) {
  return (
    <div className="filters">
      {children}
      <SavedViews />
    </div>
  )
}

const VIEWS_KEY = 'inflow.views'
const VIEWS_MAX = 20

/** URL parameters that a view does not change, so that it can be used for each business and mode. */
const SCOPE = ['business', 'mode']

/** The filters of views as query strings: by the path of the page, and then by the name of the view. */
type Views = Readonly<Record<string, Readonly<Record<string, string>>>>

/** Saves the filters of a list under a name in this browser. Not shown on the page of an object. */
function SavedViews() {
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
    localStorage.setItem(VIEWS_KEY, JSON.stringify(all))
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

/** The URL parameters that a view keeps, in a stable order. */
function filtersOf(params: URLSearchParams): string {
  const filters = new URLSearchParams(params)
  for (const each of SCOPE) filters.delete(each)
  filters.sort()
  return filters.toString()
}

/** Reads the views of this browser; none if the stored value is not valid. */
function readViews(): Views {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(VIEWS_KEY) ?? '{}')
    return typeof stored === 'object' && stored !== null ? (stored as Views) : {}
  } catch {
    return {}
  }
}

interface ChoiceFilterProps {
  readonly name: string
  readonly label: string
  readonly choices: readonly Choice[]
  readonly any?: string
}

/** A filter with fixed choices. @param name the URL parameter @param any the label of the choice without a filter */
export function ChoiceFilter({ name, label, choices, any = 'Any' }: ChoiceFilterProps) {
  const [value, setValue] = useUrlState(name)
  const chosen = choices.find((choice) => choice.value === value)
  return (
    <Popover label={chosen ? `${label}: ${chosen.label}` : label} isSet={chosen !== undefined}>
      <fieldset>
        <legend className="hidden">{label}</legend>
        {[{ value: '', label: any }, ...choices].map((choice) => (
          <label key={choice.value} className="choice">
            <input
              type="radio"
              name={name}
              checked={choice.value === value}
              onChange={() => setValue(choice.value)}
            />{' '}
            {choice.label}
          </label>
        ))}
      </fieldset>
    </Popover>
  )
}

interface TextFilterProps {
  readonly name: string
  readonly label: string
  readonly placeholder?: string
}

export function TextFilter({ name, label, placeholder }: TextFilterProps) {
  const [value, setValue] = useUrlState(name)
  const [text, setText] = useState(value)
  const id = useId()
  useEffect(() => setText(value), [value])
  return (
    <Popover label={value === '' ? label : `${label}: ${value}`} isSet={value !== ''}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          setValue(text.trim())
        }}
      >
        <label className="field" htmlFor={id}>
          {label}
        </label>
        <input
          id={id}
          value={text}
          placeholder={placeholder}
          maxLength={254}
          onChange={(event) => setText(event.target.value)}
        />
        <div className="dialog-buttons">
          <Button onClick={() => setValue('')}>Clear</Button>
          <Button type="submit" kind="primary">
            Apply
          </Button>
        </div>
      </form>
    </Popover>
  )
}

/** Periods in days of the viewer's zone: from `fromDays` before today, until `toDays` before today. */
const PRESETS: readonly (readonly [name: string, fromDays: number, toDays?: number])[] = [
  ['Today', 0],
  ['Yesterday', 1, 0],
  ['Last 7 days', 6],
  ['Last 30 days', 29],
]

/** The beginning of a day in the viewer's zone, in the format of time fields. */
function dayStart(daysAgo: number): string {
  const day = new Date()
  day.setHours(0, 0, 0, 0)
  day.setDate(day.getDate() - daysAgo)
  return localField(day.getTime())
}

export function TimeFilter({ label = 'Time' }: { readonly label?: string }) {
  const [from, setFrom] = useUrlState('from')
  const [to, setTo] = useUrlState('to')
  const set = (nextFrom: string, nextTo: string) => {
    setFrom(nextFrom)
    setTo(nextTo)
  }
  const isSet = from !== '' || to !== ''
  const shown = isSet
    ? `${label}: ${from.replace('T', ' ') || '…'} – ${to.replace('T', ' ') || 'now'}`
    : label
  return (
    <Popover label={shown} isSet={isSet}>
      <div className="presets">
        {PRESETS.map(([name, fromDays, toDays]) => (
          <Button
            key={name}
            onClick={() => set(dayStart(fromDays), toDays === undefined ? '' : dayStart(toDays))}
          >
            {name}
          </Button>
        ))}
        <Button onClick={() => set('', '')}>Any time</Button>
      </div>
      <label className="field">
        From
        <input
          type="datetime-local"
          value={from}
          onChange={(event) => setFrom(event.target.value)}
        />
      </label>
      <label className="field">
        Before
        <input type="datetime-local" value={to} onChange={(event) => setTo(event.target.value)} />
      </label>
    </Popover>
  )
}

export function useTimeRange(): { from?: Timestamp; to?: Timestamp } {
  const fromMs = readTime(useUrlState('from')[0])
  const toMs = readTime(useUrlState('to')[0])
  return {
    ...(fromMs !== undefined && { from: timestampFromMs(fromMs) }),
    ...(toMs !== undefined && { to: timestampFromMs(toMs) }),
  }
}

/** Reads a time of `TimeFilter`, in milliseconds since the Unix epoch. */
export function readTime(text: string): number | undefined {
  const ms = text === '' ? Number.NaN : new Date(text).getTime()
  return Number.isNaN(ms) ? undefined : ms
}
