import type {
  DescMessage,
  DescMethodUnary,
  Message,
  MessageInitShape,
  MessageShape,
} from '@bufbuild/protobuf'
import { callUnaryMethod, useInfiniteQuery, useTransport } from '@connectrpc/connect-query'
import type { UseInfiniteQueryResult } from '@tanstack/react-query'
import {
  type KeyboardEvent,
  type MouseEvent,
  memo,
  type ReactNode,
  type RefObject,
  useCallback,
  useEffect,
  useMemo,
  useRef,
} from 'react'
import { Link, useLocation } from 'wouter'
import type { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { count } from '../format/money.ts'
import { BusinessNames, useBusinessNames } from '../session/business-names.ts'
import { useHref, useUrlState, useViewScope } from '../session/view-scope.tsx'
import { Button } from './button.tsx'
import { ExportList, type ListSource } from './export-list.tsx'
import { isModified, isTyping, lineAt, STEPS } from './keys.ts'
import { Failure, Waiting } from './page.tsx'
import { Popover } from './popover.tsx'

export interface Column<Row> {
  /** The name of the column in the URL. */
  readonly key: string
  readonly title: string
  readonly render: (row: Row) => ReactNode
  /** Amounts and counts are aligned to the right. */
  readonly isNumber?: boolean
  /** Hidden until the viewer chooses it. */
  readonly isExtra?: boolean
  /** Left out on a phone. */
  readonly isWide?: boolean
  /** Shows the business of a row: left out if all rows belong to one business. */
  readonly isBusiness?: boolean
}

interface TableProps<Row> {
  /** The name of the table for screen readers. */
  readonly label: string
  /** Created once, so that unchanged rows are not redrawn. */
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  /** Absent: rows have an `id`. */
  readonly keyOf?: ((row: Row) => string) | undefined
  /** The page of a row: the row is the link. */
  readonly hrefOf?: ((row: Row, href: ReturnType<typeof useHref>) => string) | undefined
  /** Opens a row without a page. */
  readonly onOpen?: ((row: Row) => void) | undefined
  /** Rows that have just arrived, by key: they are marked for a moment. */
  readonly fresh?: ReadonlySet<string> | undefined
  /** Tools next to the choice of columns. */
  readonly tools?: ReactNode
  /** The sums of the rows, below them. */
  readonly total?: Row | undefined
}

/**
 * Rows with keyboard navigation: `j` and `k` or the arrows move, Enter opens. The choice of columns is in the URL.
 * A row is redrawn only if the row or the choice of columns changes.
 */
export function Table<Row>(props: TableProps<Row>) {
  const { label, rows, keyOf = idOf, hrefOf, onOpen, fresh, total } = props
  const href = useHref()
  const isOne = useViewScope().businessId !== ''
  const hasBusiness = !isOne && props.columns.some(({ isBusiness }) => isBusiness)
  const nameOf = useBusinessNames(hasBusiness ? rows.map(businessOf) : [])
  const [shown, chooser] = useColumns(props.columns, isOne)
  const [, navigate] = useLocation()
  const body = useRef<HTMLTableSectionElement>(null)
  const frame = useScrolls()
  const canOpen = hrefOf !== undefined || onOpen !== undefined
  const latest = useRef((_row: Row) => {})
  latest.current = (row) => {
    rememberRow(keyOf(row))
    if (hrefOf) navigate(hrefOf(row, href))
    else onOpen?.(row)
  }
  const open = useCallback((row: Row) => latest.current(row), [])
  useFirstKey(body, canOpen)
  useReturn(body, rows.length > 0)
  return (
    <div className="table-frame" ref={frame}>
      {(chooser ?? props.tools) && (
        <div className="columns">
          {props.tools}
          {chooser}
        </div>
      )}
      <table className={canOpen ? 'table cards' : 'table'} aria-label={label}>
        <thead>
          <tr>
            {shown.map((column) => (
              <th key={column.key} scope="col" className={classesOf(column)}>
                {column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody ref={body} onKeyDown={(event) => walk(event, body.current)}>
          <BusinessNames value={nameOf}>
            {rows.map((row, index) => (
              <TableRow
                key={keyOf(row)}
                row={row}
                name={keyOf(row)}
                to={hrefOf?.(row, href)}
                columns={shown as readonly Column<unknown>[]}
                isFirst={index === 0}
                isFresh={fresh?.has(keyOf(row)) ?? false}
                open={canOpen ? (open as (row: unknown) => void) : undefined}
              />
            ))}
          </BusinessNames>
        </tbody>
        {total !== undefined && (
          <tfoot>
            <tr>{shown.map((column, index) => totalCell(column, total, index === 0))}</tr>
          </tfoot>
        )}
      </table>
    </div>
  )
}

function totalCell<Row>(column: Column<Row>, total: Row, isFirst: boolean) {
  const Cell = isFirst ? 'th' : 'td'
  return (
    <Cell key={column.key} className={classesOf(column)}>
      {column.render(total)}
    </Cell>
  )
}

function idOf(row: unknown): string {
  return (row as { readonly id: string }).id
}

function businessOf(row: unknown): string {
  return (row as { readonly businessId: string }).businessId
}

interface TableRowProps {
  readonly row: unknown
  readonly name: string
  readonly to: string | undefined
  readonly columns: readonly Column<unknown>[]
  readonly isFirst: boolean
  readonly isFresh: boolean
  readonly open: ((row: unknown) => void) | undefined
}

const TableRow = memo(function TableRow(props: TableRowProps) {
  const { row, name, to, columns, isFirst, isFresh, open } = props
  const classes = `${open ? 'opens' : ''} ${isFresh ? 'fresh' : ''}`.trim()
  return (
    <tr
      data-row={name}
      className={classes === '' ? undefined : classes}
      tabIndex={open ? (isFirst ? 0 : -1) : undefined}
      onClick={(event) => {
        if (isControl(event.target) || hasSelection()) return
        if (!openTab(event)) open?.(row)
      }}
      onAuxClick={(event) => {
        if (event.button === 1 && !isControl(event.target)) openTab(event)
      }}
      onKeyDown={(event) => {
        if (event.key !== 'Enter' || event.target !== event.currentTarget) return
        if (!openTab(event)) open?.(row)
      }}
    >
      {columns.map((column, index) => (
        <td key={column.key} className={classesOf(column)} data-title={column.title}>
          {index === 0 && to !== undefined ? (
            <Link
              href={to}
              className="row-link"
              tabIndex={-1}
              onClick={(event) => {
                if ((event.target as Element).closest('button')) event.preventDefault()
                else if (!isForTab(event)) rememberRow(name)
              }}
            >
              {column.render(row)}
            </Link>
          ) : (
            column.render(row)
          )}
        </td>
      ))}
    </tr>
  )
})

type RowEvent = Pick<MouseEvent | KeyboardEvent, 'ctrlKey' | 'metaKey' | 'currentTarget'> & {
  readonly button?: number
}

/** Whether a click or key opens a new tab, by the rules of browsers. */
function isForTab({ ctrlKey, metaKey, button }: RowEvent): boolean {
  return ctrlKey || metaKey || button === 1
}

/** Opens the page of a row in a new tab if the event requests it. */
function openTab(event: RowEvent): boolean {
  const link = (event.currentTarget as Element).querySelector<HTMLAnchorElement>('a.row-link')
  if (!link || !isForTab(event)) return false
  window.open(link.href, '_blank', 'noopener')
  return true
}

/** Stores in the history which row was opened. */
function rememberRow(key: string): void {
  window.history.replaceState({ ...window.history.state, row: key }, '')
}

/** Focuses the opened row when the viewer returns to the list. */
function useReturn(body: RefObject<HTMLElement | null>, hasRows: boolean): void {
  useEffect(() => {
    const key: unknown = window.history.state?.row
    if (!hasRows || typeof key !== 'string') return
    const row = body.current?.querySelector<HTMLElement>(`[data-row="${CSS.escape(key)}"]`)
    if (row && isFocusFree()) focusRow(body.current, row)
  }, [body, hasRows])
}

function classesOf({ isNumber, isWide }: Column<never>): string | undefined {
  if (!isNumber && !isWide) return undefined
  return `${isNumber ? 'number' : ''} ${isWide ? 'wide-only' : ''}`.trim()
}

/**
 * Lets a table scroll sideways if it is too wide. Only then, because the head of a table that scrolls by itself does not
 * stay below the bar.
 */
function useScrolls() {
  const frame = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const element = frame.current
    const table = element?.querySelector('table')
    if (!element || !table) return undefined
    const measure = () => {
      const scrolls = table.offsetWidth > element.clientWidth
      element.classList.toggle('scrolls', scrolls)
      // A scrolling element must be reachable by keyboard.
      if (scrolls) element.tabIndex = 0
      else element.removeAttribute('tabindex')
    }
    const resized = new ResizeObserver(measure)
    resized.observe(element)
    resized.observe(table)
    return () => resized.disconnect()
  }, [])
  return frame
}

/** Whether nothing on the page has the focus. */
function isFocusFree(): boolean {
  const { activeElement } = document
  return activeElement === document.body || activeElement?.id === 'content'
}

/** `j` focuses the first row while nothing has the focus. */
function useFirstKey(body: RefObject<HTMLElement | null>, canOpen: boolean): void {
  useEffect(() => {
    if (!canOpen) return undefined
    const onKey = (event: globalThis.KeyboardEvent) => {
      if (event.key !== 'j' || event.defaultPrevented || isModified(event)) return
      if (!isFocusFree() || body.current === null) return
      event.preventDefault()
      moveFocus(body.current, 1)
    }
    window.addEventListener('keydown', onKey)
    return () => window.removeEventListener('keydown', onKey)
  }, [body, canOpen])
}

/** Whether an element is a link, button or field in a row: a click on it does not open the row. */
function isControl(target: EventTarget): boolean {
  return target instanceof Element && target.closest('a, button, input, select') !== null
}

/** Whether the viewer is selecting text, which is not a click. */
function hasSelection(): boolean {
  return (window.getSelection()?.toString() ?? '') !== ''
}

function walk(event: KeyboardEvent, body: HTMLElement | null): void {
  const step = STEPS[event.key]
  if (step === undefined || body === null || isModified(event) || isTyping(event.target)) return
  event.preventDefault()
  moveFocus(body, step)
}

function moveFocus(body: HTMLElement, step: number): void {
  const rows = [...body.querySelectorAll<HTMLElement>('[data-row]')]
  const at = rows.findIndex((row) => row.contains(document.activeElement))
  focusRow(body, lineAt(rows, at + step))
}

function focusRow(body: HTMLElement | null, row: HTMLElement | undefined): void {
  for (const each of body?.querySelectorAll<HTMLElement>('[data-row]') ?? []) {
    each.tabIndex = each === row ? 0 : -1
  }
  row?.focus()
  row?.scrollIntoView({ block: 'nearest' })
}

/** The columns to show, and the control that chooses them; none if all are always shown. */
function useColumns<Row>(
  all: readonly Column<Row>[],
  isOne: boolean,
): readonly [readonly Column<Row>[], ReactNode] {
  const columns = useMemo(
    () => (isOne ? all.filter(({ isBusiness }) => !isBusiness) : all),
    [all, isOne],
  )
  const usual = columns.filter(({ isExtra }) => !isExtra).map(({ key }) => key)
  const [text, setText] = useUrlState('cols', usual.join(','))
  const chosen = new Set(text.split(','))
  const shown = useMemo(() => {
    const keys = text.split(',')
    const found = columns.filter(({ key }) => keys.includes(key))
    return found.length > 0 ? found : columns
  }, [columns, text])
  if (usual.length === columns.length) return [columns, null]
  const toggle = (key: string) => {
    const next = columns
      .map((column) => column.key)
      .filter((each) => chosen.has(each) !== (each === key))
    if (next.length > 0) setText(next.join(','))
  }
  const control = (
    <Popover label="Columns">
      {columns.map(({ key, title }) => (
        <label key={key} className="choice">
          <input type="checkbox" checked={chosen.has(key)} onChange={() => toggle(key)} /> {title}
        </label>
      ))}
    </Popover>
  )
  return [shown, control]
}

/** A paged list, as `useInfiniteQuery` returns it. */
export type Pages = Pick<
  UseInfiniteQueryResult<unknown, unknown>,
  'error' | 'isPending' | 'hasNextPage' | 'isFetchingNextPage' | 'fetchNextPage' | 'refetch'
>

/** The names of the repeated fields of a response. */
type ListOf<O extends DescMessage> = {
  [K in keyof MessageShape<O>]: MessageShape<O>[K] extends readonly Message[] ? K : never
}[keyof MessageShape<O>]

type RowOf<
  O extends DescMessage,
  K extends keyof MessageShape<O>,
> = MessageShape<O>[K] extends readonly (infer Row)[] ? Row : never

interface PagedOptions<Row> {
  readonly enabled?: boolean
  readonly staleTime?: number
  /** The interval in milliseconds at which the list is read again; false: not automatically. */
  readonly refetchMs?: number | ((rows: readonly Row[]) => number | false)
}

/**
 * Reads a list page by page.
 *
 * @param name the name of the list in the response
 */
export function usePagedList<
  I extends DescMessage,
  O extends DescMessage,
  const K extends ListOf<O>,
>(
  method: DescMethodUnary<I, O>,
  name: K,
  request: MessageInitShape<I>,
  { refetchMs = () => false, ...options }: PagedOptions<RowOf<O, K>> = {},
): { readonly rows: readonly RowOf<O, K>[]; readonly pages: Pages; readonly source: ListSource } {
  const transport = useTransport()
  const rowsOf = (page: unknown) => (page as MessageShape<O>)[name] as RowOf<O, K>[]
  // All paged methods have the same shape, which TypeScript cannot express for a generic method.
  const paged = method as unknown as typeof BusinessService.method.listBusinesses
  const pages = useInfiniteQuery(
    paged,
    { ...(request as object), pageToken: '' },
    {
      ...options,
      pageParamKey: 'pageToken',
      getNextPageParam: (last) => last.nextPageToken || undefined,
      refetchInterval: ({ state }) =>
        typeof refetchMs === 'number'
          ? refetchMs
          : refetchMs(state.data?.pages.flatMap(rowsOf) ?? []),
    },
  )
  // biome-ignore lint/correctness/useExhaustiveDependencies: the name of the list does not change
  const rows = useMemo(() => pages.data?.pages.flatMap(rowsOf) ?? [], [pages.data])
  const source: ListSource = {
    method,
    request: request as object,
    list: method.output.field[name]?.message ?? method.output,
    async read(page, signal) {
      const response = await callUnaryMethod(transport, paged, page, signal ? { signal } : {})
      return { rows: rowsOf(response), nextPageToken: response.nextPageToken }
    },
  }
  return { rows, pages, source }
}

export function List<Row>({
  of: { rows, pages, source },
  isExported = false,
  empty,
  children,
  ...table
}: Omit<TableProps<Row>, 'rows' | 'tools'> & {
  readonly of: {
    readonly rows: readonly Row[]
    readonly pages: Pages
    readonly source?: ListSource
  }
  readonly isExported?: boolean
  /** Shown in place of a table without rows. */
  readonly empty: ReactNode
  /** Shown above the table. */
  readonly children?: ReactNode
}) {
  return (
    <ListFrame pages={pages} isEmpty={rows.length === 0} empty={empty}>
      {children}
      <Table
        {...table}
        rows={rows}
        tools={isExported && source && <ExportList source={source} name={table.label} />}
      />
    </ListFrame>
  )
}

interface ListFrameProps {
  readonly pages: Pages
  readonly isEmpty: boolean
  readonly empty: ReactNode
  readonly children: ReactNode
}

/** How many pages without matching rows are skipped before the viewer is asked to continue. */
const LOOKS_MAX = 30

/** The states of a list around its rows: loading, failed, empty, and more pages. */
export function ListFrame({ pages, isEmpty, empty, children }: ListFrameProps) {
  const looks = useRef(0)
  const looksOn =
    isEmpty &&
    pages.hasNextPage &&
    !pages.isFetchingNextPage &&
    pages.error === null &&
    looks.current < LOOKS_MAX
  useEffect(() => {
    if (!looksOn) return
    looks.current++
    void pages.fetchNextPage()
  })
  if (pages.isPending) return <Waiting rows={12} />
  if (pages.error && isEmpty) {
    return <Failure error={pages.error} onRetry={() => void pages.refetch()} />
  }
  return (
    <>
      {isEmpty && !pages.hasNextPage ? empty : children}
      {pages.error !== null && (
        <Failure error={pages.error} onRetry={() => void pages.fetchNextPage()} />
      )}
      {pages.hasNextPage && (
        <div className="more">
          <Button busy={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>
            {pages.isFetchingNextPage
              ? isEmpty
                ? 'Looking further back…'
                : 'Loading…'
              : isEmpty
                ? 'Look further back'
                : 'More'}
          </Button>
        </div>
      )}
    </>
  )
}

/** Shows how many rows wait. The live region always exists, so that screen readers announce changes. */
export function NewRows({ count: waiting, onShow }: { count: number; onShow: () => void }) {
  return (
    <div className="arrivals" aria-live="polite">
      {waiting > 0 && (
        <button type="button" className="pill" onClick={onShow}>
          {count(waiting)} new
        </button>
      )}
    </div>
  )
}
