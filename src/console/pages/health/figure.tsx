import type { ReactNode } from 'react'
import { Status } from '../../ui/status.tsx'

/** `none`: the figure can be neither good nor bad. */
export type FigureState = 'good' | 'waiting' | 'bad' | 'none'

const WORDS = { waiting: 'Behind', bad: 'Needs you' } as const

/** One large figure, with what it means below. */
export function Figure({
  title,
  value,
  note,
  state,
}: {
  readonly title: string
  readonly value: string
  readonly note: ReactNode
  readonly state: FigureState
}) {
  return (
    <li className="figure">
      <span className="figure-title">
        {title}
        {(state === 'waiting' || state === 'bad') && <Status tone={state}>{WORDS[state]}</Status>}
      </span>
      <span className="figure-value">{value}</span>
      <span className="faint">{note}</span>
    </li>
  )
}
