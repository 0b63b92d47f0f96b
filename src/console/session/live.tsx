import { Code, ConnectError, createClient, type Transport } from '@connectrpc/connect'
import { useTransport } from '@connectrpc/connect-query'
import { useQueryClient } from '@tanstack/react-query'
import {
  createContext,
  type ReactNode,
  useContext,
  useEffect,
  useMemo,
  useRef,
  useState,
} from 'react'
import type { Event } from '../../../gen/inflow/event/v1/event_pb.ts'
import { RAIL_NEEDS } from '../app/rail-needs.ts'
import { useMay } from './session.tsx'
import { useViewScope, type ViewScope } from './view-scope.tsx'

type LiveState =
  | { readonly kind: 'live' }
  | { readonly kind: 'connecting' }
  /** The tab is hidden, or the viewer paused it. */
  | { readonly kind: 'paused' }
  | { readonly kind: 'reconnecting'; readonly atMs: number }
  /** The caller may not subscribe. */
  | { readonly kind: 'off' }

/** @param missed whether events were lost or the position is unknown, so that shown data must be read again */
type Listener = (events: readonly Event[], missed: boolean) => void

interface Live {
  readonly state: LiveState
  readonly isPaused: boolean
  setPaused(paused: boolean): void
  /** @returns a function that removes the listener */
  listen(listener: Listener): () => void
}

const LiveContext = createContext<Live | undefined>(undefined)

/** The interval at which events are passed on, so that a page is drawn at most a few times a second. */
const FLUSH_MS = 250

/** The most events that wait to be passed on. If there are more, pages that show all events read them again. */
const WAITING_MAX = 500

const RETRY_MIN_MS = 1_000
const RETRY_MAX_MS = 30_000

/**
 * One event stream for all pages, with the shown mode and business. It ends while the tab is hidden or the viewer pauses it,
 * and resumes after the last event.
 */
export function LiveProvider({ children }: { readonly children: ReactNode }) {
  const transport = useTransport()
  const queries = useQueryClient()
  const allowed = useMay()(RAIL_NEEDS.Events)
  const { live, businessId } = useViewScope()
  const [isPaused, setPaused] = useState(false)
  const isHidden = useHidden()
  const [state, setState] = useState<LiveState>({ kind: allowed ? 'connecting' : 'off' })
  const listeners = useRef(new Set<Listener>())
  const cursor = useRef({ scope: '', text: '' })
  useEffect(() => {
    if (!allowed) return setState({ kind: 'off' })
    if (isPaused || isHidden) return setState({ kind: 'paused' })
    const scope = `${live} ${businessId}`
    if (cursor.current.scope !== scope) cursor.current = { scope, text: '' }
    const pass: Listener = (events, missed) => {
      for (const listener of listeners.current) listener(events, missed)
    }
    const readAgain = () => void queries.invalidateQueries()
    return follow(transport, { live, businessId }, cursor.current, setState, pass, readAgain)
  }, [transport, queries, allowed, live, businessId, isPaused, isHidden])
  const value = useMemo<Live>(
    () => ({
      state,
      isPaused,
      setPaused,
      listen(listener) {
        listeners.current.add(listener)
        return () => listeners.current.delete(listener)
      },
    }),
    [state, isPaused],
  )
  return <LiveContext value={value}>{children}</LiveContext>
}

export function useLive(): Live {
  const live = useContext(LiveContext)
  if (live === undefined) throw new Error('a page is inside of the live stream')
  return live
}

/** Calls a function with the events that arrive while the component is shown. */
export function useEvents(onEvents: Listener): void {
  const { listen } = useLive()
  const latest = useRef(onEvents)
  latest.current = onEvents
  useEffect(() => listen((events, missed) => latest.current(events, missed)), [listen])
}

/** Reads the stream until the returned function is called, and reads it again when it ends. */
function follow(
  transport: Transport,
  { live, businessId }: ViewScope,
  cursor: { text: string },
  setState: (state: LiveState) => void,
  pass: Listener,
  onSignedOut: () => void,
): () => void {
  const ended = new AbortController()
  let waiting: Event[] = []
  let isMissed = false
  const flush = () => {
    if (waiting.length === 0 && !isMissed) return
    const events = waiting
    const missed = isMissed
    waiting = []
    isMissed = false
    pass(events, missed)
  }
  const flushing = setInterval(flush, FLUSH_MS)
  const read = async (onOpen: () => void): Promise<void> => {
    // Loaded after the page is shown, because the contract of events imports nearly the whole contract.
    const { EventService } = await import('../../../gen/inflow/event/v1/event_service_pb.ts')
    const client = createClient(EventService, transport)
    const stream = client.subscribe(
      {
        start: cursor.text === '' ? { case: undefined } : { case: 'cursor', value: cursor.text },
        businessIds: businessId === '' ? [] : [businessId],
        live,
      },
      { signal: ended.signal, timeoutMs: 0, onHeader: onOpen },
    )
    for await (const { item } of stream) {
      if (item.case === undefined) continue
      cursor.text = item.value.cursor
      if (item.case !== 'event') continue
      waiting.push(item.value)
      if (waiting.length > 2 * WAITING_MAX) {
        waiting = waiting.slice(-WAITING_MAX)
        isMissed = true
      }
    }
  }
  const run = async (): Promise<void> => {
    for (let failures = 0; !ended.signal.aborted; failures++) {
      setState({ kind: 'connecting' })
      try {
        await read(() => {
          failures = 0
          setState({ kind: 'live' })
        })
      } catch (error) {
        if (ended.signal.aborted) return
        const { code } = ConnectError.from(error)
        if (code === Code.OutOfRange || code === Code.FailedPrecondition) {
          cursor.text = ''
          isMissed = true
        }
        // Without a stream, it would look as if no payments arrived. Reading again leads to the sign-in page.
        if (code === Code.Unauthenticated) onSignedOut()
        if (code === Code.Unauthenticated || code === Code.PermissionDenied) {
          return setState({ kind: 'off' })
        }
      }
      const waitMs = backoffMs(failures)
      setState({ kind: 'reconnecting', atMs: Date.now() + waitMs })
      await sleep(waitMs, ended.signal)
    }
  }
  void run()
  return () => {
    ended.abort()
    clearInterval(flushing)
    // Pass on the waiting events, because the stream resumes after them.
    flush()
  }
}

function backoffMs(failures: number): number {
  const full = Math.min(RETRY_MAX_MS, RETRY_MIN_MS * 2 ** Math.min(failures, 5))
  return full * (0.5 + Math.random() / 2)
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      resolve()
    })
  })
}

function useHidden(): boolean {
  const [isHidden, setHidden] = useState(document.hidden)
  useEffect(() => {
    const onChange = () => setHidden(document.hidden)
    document.addEventListener('visibilitychange', onChange)
    return () => document.removeEventListener('visibilitychange', onChange)
  }, [])
  return isHidden
}

/** How long after an event a list is read again, so that the effects of the event are stored by then. */
const DELAY_MS = 1_500

/** How long after the last event a list is read once more, because the service may be slow to store its effects. */
const LATE_MS = 5_000

/** If the page is scrolled further than this, the viewer is reading, and rows must not move. */
const SCROLLED_PX = 80

const isScrolled = () => window.scrollY > SCROLLED_PX

/**
 * Reads a list again when events arrive that concern it, at most once in 1.5 s, and once more after the last one. While
 * the page is scrolled, it counts the events instead.
 *
 * @param concerns whether an event changes the list
 * @returns a button that shows the new rows; null if there are none
 */
export function useArrivals(
  refetch: () => unknown,
  concerns: (event: Event) => boolean,
): ReactNode {
  const [waiting, setWaiting] = useState(0)
  const soon = useRef<ReturnType<typeof setTimeout>>(undefined)
  const late = useRef<ReturnType<typeof setTimeout>>(undefined)
  const latest = useRef(refetch)
  latest.current = refetch
  useEvents((events) => {
    const count = events.filter(concerns).length
    if (count === 0) return
    if (isScrolled()) return setWaiting((before) => before + count)
    soon.current ??= setTimeout(() => {
      soon.current = undefined
      void latest.current()
    }, DELAY_MS)
    clearTimeout(late.current)
    late.current = setTimeout(() => void (isScrolled() || latest.current()), LATE_MS)
  })
  useEffect(
    () => () => {
      clearTimeout(soon.current)
      clearTimeout(late.current)
    },
    [],
  )
  if (waiting === 0) return null
  const show = () => {
    setWaiting(0)
    void refetch()
  }
  return (
    <button type="button" className="pill" onClick={show}>
      {waiting} new
    </button>
  )
}
