import { type Timestamp, timestampFromMs } from '@bufbuild/protobuf/wkt'
import { type ReactNode, useEffect, useId, useState } from 'react'
import type { Choice } from '../format/enums.ts'
import { localField } from '../format/time.ts'
import { useUrlState } from '../session/view-scope.tsx'
import { Button } from './button.tsx'
import { Popover } from './popover.tsx'
import { SavedViews } from './saved-views.tsx'

/** The chips above a list. What they choose is in the URL. */
export function FilterBar({ children }: { readonly children: ReactNode }) {
  return (
    <div className="filters">
      {children}
      <SavedViews />
    </div>
  )
}

interface ChoiceFilterProps {
  readonly name: string
  readonly label: string
  readonly choices: readonly Choice[]
  readonly any?: string
}

/** A filter with fixed choices. @param name of the parameter of the URL @param any names the choice of none */
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

/** Periods in days of the viewer's zone: from so many days before today, and before so many. */
const PRESETS: readonly (readonly [name: string, fromDays: number, toDays?: number])[] = [
  ['Today', 0],
  ['Yesterday', 1, 0],
  ['Last 7 days', 6],
  ['Last 30 days', 29],
]

/** The beginning of a day in the viewer's zone, as fields for times hold it. */
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
