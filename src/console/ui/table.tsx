import { type KeyboardEvent, type ReactNode, useRef } from 'react'
import { useLocation } from 'wouter'
import { useUrlState } from '../session/view-scope.ts'
import { Popover } from './popover.tsx'

export interface Column<Row> {
  /** Its name in the URL. */
  readonly key: string
  readonly title: string
  readonly render: (row: Row) => ReactNode
  /** Amounts and counts are aligned to the right. */
  readonly isNumber?: boolean
  /** Hidden until the viewer chooses it. */
  readonly isExtra?: boolean
}

interface TableProps<Row> {
  /** Names the table for screen readers. */
  readonly label: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  readonly keyOf: (row: Row) => string
  /** The page of a row: the row is the link. */
  readonly hrefOf?: (row: Row) => string
  /** What a row without a page does. */
  readonly onOpen?: (row: Row) => void
  /** Rows that have just arrived, by key: they are marked for a moment. */
  readonly fresh?: ReadonlySet<string>
}

/**
 * Rows that the keyboard walks: `j` and `k` or the arrows move, Enter opens. The choice of columns is in the URL.
 */
export function Table<Row>(props: TableProps<Row>) {
  const { label, rows, keyOf, hrefOf, onOpen, fresh } = props
  const [shown, chooser] = useColumns(props.columns)
  const [, navigate] = useLocation()
  const body = useRef<HTMLTableSectionElement>(null)
  const canOpen = hrefOf !== undefined || onOpen !== undefined
  const open = (row: Row) => {
    if (hrefOf) navigate(hrefOf(row))
    else onOpen?.(row)
  }
  return (
    <div className="table-frame">
      {chooser}
      <table className="table" aria-label={label}>
        <thead>
          <tr>
            {shown.map((column) => (
              <th key={column.key} scope="col" className={column.isNumber ? 'number' : undefined}>
                {column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody ref={body} onKeyDown={(event) => walk(event, body.current)}>
          {rows.map((row, index) => (
            <tr
              key={keyOf(row)}
              data-row
              className={classesOf(canOpen, fresh?.has(keyOf(row)))}
              tabIndex={canOpen ? (index === 0 ? 0 : -1) : undefined}
              onClick={(event) => {
                if (canOpen && !isControl(event.target) && !hasSelection()) open(row)
              }}
              onKeyDown={(event) => {
                if (event.key === 'Enter' && event.target === event.currentTarget) open(row)
              }}
            >
              {shown.map((column) => (
                <td key={column.key} className={column.isNumber ? 'number' : undefined}>
                  {column.render(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function classesOf(canOpen: boolean, isFresh: boolean | undefined): string | undefined {
  const classes = [canOpen && 'opens', isFresh && 'fresh'].filter((name) => name)
  return classes.length > 0 ? classes.join(' ') : undefined
}

/** Links, buttons and fields in a row do what they do; the row does not open then. */
function isControl(target: EventTarget): boolean {
  return target instanceof Element && target.closest('a, button, input, select') !== null
}

/** Text that is being selected is not a click. */
function hasSelection(): boolean {
  return (window.getSelection()?.toString() ?? '') !== ''
}

const STEPS: Readonly<Record<string, number>> = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }

/** Moves the focus between rows. */
function walk(event: KeyboardEvent, body: HTMLElement | null): void {
  const step = STEPS[event.key]
  if (step === undefined || body === null || event.ctrlKey || event.metaKey || event.altKey) return
  if (isField(event.target)) return
  event.preventDefault()
  moveFocus(body, step)
}

function moveFocus(body: HTMLElement, step: number): void {
  const rows = [...body.querySelectorAll<HTMLElement>('[data-row]')]
  const at = rows.findIndex((row) => row.contains(document.activeElement))
  const next = rows[Math.min(rows.length - 1, Math.max(0, at + step))]
  for (const row of rows) row.tabIndex = row === next ? 0 : -1
  next?.focus()
  next?.scrollIntoView({ block: 'nearest' })
}

function isField(target: EventTarget): boolean {
  return target instanceof HTMLElement && target.closest('input, select, textarea') !== null
}

/** The columns to show, and the control that chooses them; none if all are always shown. */
function useColumns<Row>(
  columns: readonly Column<Row>[],
): readonly [readonly Column<Row>[], ReactNode] {
  const usual = columns.filter(({ isExtra }) => !isExtra).map(({ key }) => key)
  const [text, setText] = useUrlState('cols', usual.join(','))
  const chosen = new Set(text.split(','))
  const shown = columns.filter(({ key }) => chosen.has(key))
  if (usual.length === columns.length) return [columns, null]
  const toggle = (key: string) => {
    const next = columns
      .map((column) => column.key)
      .filter((each) => chosen.has(each) !== (each === key))
    if (next.length > 0) setText(next.join(','))
  }
  const control = (
    <div className="columns">
      <Popover label="Columns">
        {columns.map(({ key, title }) => (
          <label key={key} className="choice">
            <input type="checkbox" checked={chosen.has(key)} onChange={() => toggle(key)} /> {title}
          </label>
        ))}
      </Popover>
    </div>
  )
  return [shown.length > 0 ? shown : columns, control]
}
