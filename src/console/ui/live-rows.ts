interface Identified {
  readonly id: string
}

/** The most arrived rows that are kept, both shown and waiting. */
export const LIVE_ROWS_MAX = 200

/** The most rows that are marked as new: if they arrive together, and in total. */
const MARKED_TOGETHER_MAX = 10
const MARKED_MAX = 30

/** Rows that arrived while a list is open. */
export interface LiveRows<Row> {
  /** The rows that are shown above the rows that were read, newest first. */
  readonly shown: readonly Row[]
  /** The rows that arrived while the viewer was reading, newest first. */
  readonly waiting: readonly Row[]
  /** The number of waiting rows, which exceeds the length of `waiting` if there were too many. */
  readonly waitingCount: number
  /** The rows that changed since they were read, by id. */
  readonly changed: ReadonlyMap<string, Row>
  /** The ids of rows that are marked as new. If many arrive together, none is marked, because drawing marks is slow. */
  readonly fresh: readonly string[]
  /** Whether rows are missing between `shown` and the rows that were read, which are then hidden. */
  readonly isCut: boolean
}

export const NO_ROWS: LiveRows<never> = {
  shown: [],
  waiting: [],
  waitingCount: 0,
  changed: new Map<string, never>(),
  fresh: [],
  isCut: false,
}

interface Arrival<Row> {
  /** New rows, in the order of their events. */
  readonly recorded: readonly Row[]
  readonly changed?: readonly Row[]
  /** Whether a row belongs in the list. */
  readonly matches?: (row: Row) => boolean
  /** The ids of the rows that were read. */
  readonly known?: ReadonlySet<string>
  /** Whether the viewer is reading, so that no row may move. */
  readonly isHeld: boolean
  /** Whether there were more rows than these. */
  readonly missed: boolean
}

const NONE: ReadonlySet<string> = new Set()

/** Adds rows that arrived. A row that is already shown changes in its place. */
export function arrive<Row extends Identified>(
  rows: LiveRows<Row>,
  arrival: Arrival<Row>,
): LiveRows<Row> {
  const { recorded, changed: updated = [], matches = () => true, known = NONE } = arrival
  const { isHeld, missed } = arrival
  const latest = new Map([...recorded, ...updated].map((each) => [each.id, each]))
  const here = new Set([...rows.shown, ...rows.waiting].map(({ id }) => id))
  const fresh = recorded
    .filter(({ id }) => !here.has(id) && !known.has(id))
    .map(({ id }) => latest.get(id))
    .filter((each) => each !== undefined)
    .filter(matches)
    .reverse()
  const replace = (row: Row) => latest.get(row.id) ?? row
  const changed = new Map(rows.changed)
  for (const [id, row] of latest) if (known.has(id)) changed.set(id, row)
  const next: LiveRows<Row> = {
    shown: rows.shown.map(replace),
    waiting: [...fresh, ...rows.waiting.map(replace)].slice(0, LIVE_ROWS_MAX),
    waitingCount: rows.waitingCount + fresh.length + (missed ? 1 : 0),
    changed: new Map([...changed].slice(-LIVE_ROWS_MAX)),
    fresh: rows.fresh,
    isCut: rows.isCut,
  }
  return isHeld ? next : release(next)
}

/** Shows the waiting rows. */
export function release<Row extends Identified>(rows: LiveRows<Row>): LiveRows<Row> {
  if (rows.waitingCount === 0) return rows
  const isGap = rows.waitingCount > rows.waiting.length
  const marked = rows.waitingCount > MARKED_TOGETHER_MAX ? [] : rows.waiting.map(({ id }) => id)
  const all = isGap ? rows.waiting : [...rows.waiting, ...rows.shown]
  return {
    ...rows,
    shown: all.slice(0, LIVE_ROWS_MAX),
    waiting: [],
    waitingCount: 0,
    fresh: [...marked, ...rows.fresh].slice(0, MARKED_MAX),
    isCut: rows.isCut || isGap || all.length > LIVE_ROWS_MAX,
  }
}

/** The rows of the list: arrived rows, and below them the rows that were read. */
export function joinRows<Row extends Identified>(
  rows: LiveRows<Row>,
  read: readonly Row[],
): readonly Row[] {
  if (rows.isCut) return rows.shown
  const ids = new Set(rows.shown.map(({ id }) => id))
  const waiting = new Set(rows.waiting.map(({ id }) => id))
  const below = read
    .filter(({ id }) => !ids.has(id) && !waiting.has(id))
    .map((row) => rows.changed.get(row.id) ?? row)
  return [...rows.shown, ...below]
}
