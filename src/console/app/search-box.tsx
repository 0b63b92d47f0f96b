import { useQuery } from '@connectrpc/connect-query'
import { type KeyboardEvent, useDeferredValue, useEffect, useRef, useState } from 'react'
import { useLocation } from 'wouter'
import { OverviewService } from '../../../gen/browser/inflow/overview/v1/overview_service_pb.ts'
import { useHref, useViewScope } from '../session/view-scope.ts'
import { Icon } from '../ui/icons.tsx'
import { pathOfResult } from './search-paths.ts'
import { isTyping } from './typing.ts'

/** Finds anything by what is at hand: a session, reference, number, e-mail or id. `/` or Ctrl K focuses it. */
export function SearchBox() {
  const { live, businessId } = useViewScope()
  const [typed, setTyped] = useState('')
  const [at, setAt] = useState(0)
  const [isOpen, setOpen] = useState(false)
  const [, navigate] = useLocation()
  const href = useHref()
  const input = useFocusKey()
  const query = useDeferredValue(typed.trim())
  const found = useQuery(
    OverviewService.method.search,
    { query, live, businessId },
    { enabled: query.length > 2, placeholderData: (previous) => previous },
  )
  const results = query.length > 2 ? (found.data?.results ?? []) : []
  const open = (index: number) => {
    const result = results[index]
    if (!result) return
    navigate(href(pathOfResult(result)))
    setOpen(false)
    setTyped('')
    input.current?.blur()
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Enter') open(at)
    else if (event.key === 'Escape') input.current?.blur()
    else if (event.key === 'ArrowDown') setAt(Math.min(results.length - 1, at + 1))
    else if (event.key === 'ArrowUp') setAt(Math.max(0, at - 1))
    else return
    event.preventDefault()
  }
  return (
    <search className="search">
      <Icon name="search" size={14} />
      <input
        ref={input}
        role="combobox"
        aria-label="Search"
        aria-expanded={isOpen && results.length > 0}
        aria-controls="search-results"
        aria-activedescendant={isOpen && results.length > 0 ? `search-${at}` : undefined}
        placeholder="Session, reference, account, e-mail, id"
        value={typed}
        maxLength={254}
        onChange={(event) => {
          setTyped(event.target.value)
          setAt(0)
          setOpen(true)
        }}
        onFocus={() => setOpen(true)}
        onBlur={() => setOpen(false)}
        onKeyDown={onKeyDown}
      />
      <kbd>/</kbd>
      {isOpen && query.length > 2 && (
        <div
          className="popup search-results"
          id="search-results"
          role="listbox"
          aria-label="Results"
        >
          {results.length === 0 && (
            <p className="faint">{found.isFetching ? 'Searching…' : 'Nothing found'}</p>
          )}
          {results.map((result, index) => (
            <div
              key={`${result.kind} ${result.id}`}
              id={`search-${index}`}
              role="option"
              tabIndex={-1}
              aria-selected={index === at}
              onMouseDown={(event) => {
                event.preventDefault()
                open(index)
              }}
            >
              <span>{result.title}</span>
              <span className="faint">{result.subtitle}</span>
            </div>
          ))}
        </div>
      )}
    </search>
  )
}

function useFocusKey() {
  const input = useRef<HTMLInputElement>(null)
  useEffect(() => {
    const onKey = (event: globalThis.KeyboardEvent) => {
      const isSlash = event.key === '/' && !isTyping(event.target)
      const isCtrlK = event.key === 'k' && (event.ctrlKey || event.metaKey)
      if (!isSlash && !isCtrlK) return
      event.preventDefault()
      input.current?.focus()
      input.current?.select()
    }
    window.addEventListener('keydown', onKey)
    return () => window.removeEventListener('keydown', onKey)
  }, [])
  return input
}
