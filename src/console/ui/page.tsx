import { Code, ConnectError } from '@connectrpc/connect'
import { type ReactNode, useEffect } from 'react'
import { BadRequestSchema, ErrorInfoSchema } from '../../../gen/google/rpc/error_details_pb.ts'
import { useBranding, useRestricted } from '../session/session.tsx'
import { Button, CommandLine } from './button.tsx'

interface PageProps {
  readonly title: string
  readonly actions?: ReactNode
  readonly children: ReactNode
  /** Lists use the whole width. */
  readonly isWide?: boolean
}

/** A page: its title, its actions, and its content. */
export function Page({ title, actions, children, isWide = false }: PageProps) {
  const product = useBranding()?.name ?? 'Inflow'
  useEffect(() => {
    document.title = `${title} · ${product}`
  }, [title, product])
  return (
    <div className={isWide ? 'page wide' : 'page'}>
      <header className="page-head">
        <h1>{title}</h1>
        {actions && <div className="page-actions">{actions}</div>}
      </header>
      {children}
    </div>
  )
}

interface SectionProps {
  readonly title: string
  readonly actions?: ReactNode
  readonly children: ReactNode
}

export function Section({ title, actions, children }: SectionProps) {
  return (
    <section className="section">
      <header className="section-head">
        <h2>{title}</h2>
        {actions && <div className="page-actions">{actions}</div>}
      </header>
      {children}
    </section>
  )
}

export type Fact = readonly [name: string, value: ReactNode]

/** Names and values below each other. Values that are undefined, false or empty are left out. */
export function Facts({ facts }: { readonly facts: readonly Fact[] }) {
  return (
    <dl className="facts">
      {facts
        .filter(([, value]) => value !== undefined && value !== false && value !== '')
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  )
}

interface FailureProps {
  readonly error: unknown
  readonly onRetry?: (() => void) | undefined
  /** Whether a field shows its fault itself. */
  readonly isShown?: (field: string) => boolean
}

/** The error of a failed call: its text, the fields at fault, and the request id to find it in the log. */
export function Failure({ error, onRetry, isShown }: FailureProps) {
  const { text, requestId, docUrl, ...failure } = failureOf(error)
  const fields = failure.fields.filter(({ field }) => !isShown?.(field))
  return (
    <div className="failure" role="alert">
      <p className="failure-text">{text}</p>
      {fields.length > 0 && (
        <ul>
          {fields.map(({ field, description }) => (
            <li key={field}>
              <code>{field}</code> {description}
            </li>
          ))}
        </ul>
      )}
      <p className="faint">
        {requestId !== '' && (
          <>
            Request <code>{requestId}</code>
          </>
        )}
        {docUrl !== '' && (
          <>
            {' · '}
            <a href={docUrl}>About this error</a>
          </>
        )}
      </p>
      {onRetry && <Button onClick={onRetry}>Retry</Button>}
    </div>
  )
}

/** The parts of an error that a viewer needs. */
export function failureOf(error: unknown) {
  const failure = ConnectError.from(error)
  const [info] = failure.findDetails(ErrorInfoSchema)
  const [violations] = failure.findDetails(BadRequestSchema)
  return {
    text: info ? failure.rawMessage : textOf(failure),
    fields: violations?.fieldViolations ?? [],
    requestId: info?.metadata['request_id'] ?? '',
    docUrl: info?.metadata['doc_url'] ?? '',
  }
}

/** The text of an error. Errors that do not come from the service get our texts, because those of browsers do not help. */
function textOf({ code, rawMessage }: ConnectError): string {
  if (/dynamically imported module|importing a module script|preload CSS/i.test(rawMessage)) {
    return 'This page cannot be loaded: Inflow was updated, or cannot be reached. Load it again.'
  }
  if (code === Code.DeadlineExceeded) return 'The service did not respond in time.'
  if (code === Code.Unavailable || /^$|fetch|network|load failed/i.test(rawMessage)) {
    return 'The service cannot be reached. Check the connection, and try again.'
  }
  return rawMessage
}

interface EmptyProps {
  readonly title: string
  readonly children?: ReactNode
  readonly command?: string | undefined
}

/** Explains an empty page, with a command that creates the first object. A business does not see commands. */
export function Empty({ title, children, command }: EmptyProps) {
  const isPortal = useRestricted()
  return (
    <div className="empty">
      <p className="empty-title">{title}</p>
      {children && <p>{children}</p>}
      {command !== undefined && !isPortal && <CommandLine text={command} />}
    </div>
  )
}

/** The states of a call: placeholder lines while it loads, its failure with a retry, or its data. */
export function Loaded<Data>({
  read: { data, error, refetch },
  rows = 12,
  children,
}: {
  readonly read: {
    readonly data: Data | undefined
    readonly error: unknown
    refetch(): unknown
  }
  readonly rows?: number
  readonly children?: (data: Data) => ReactNode
}) {
  return (
    <>
      {error !== null && <Failure error={error} onRetry={() => void refetch()} />}
      {data === undefined && error === null && <Waiting rows={rows} />}
      {data !== undefined && children?.(data)}
    </>
  )
}

/** Placeholder lines while data load. The style shows them only after 150 ms. */
export function Waiting({ rows = 6 }: { readonly rows?: number }) {
  return (
    <div className="bones" role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the lines are all the same
        <span key={index} className="bone" />
      ))}
    </div>
  )
}
