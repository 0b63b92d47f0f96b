import { type ComponentProps, useEffect, useState } from 'react'
import { Icon, type IconName } from './icons.tsx'

export interface ButtonProps extends ComponentProps<'button'> {
  /** `danger`: it takes money or access away. */
  readonly kind?: 'plain' | 'primary' | 'danger' | 'quiet'
  readonly icon?: IconName
  /** A call is in progress: the button waits for it. */
  readonly busy?: boolean
}

export function Button({ kind = 'plain', icon, busy, children, className, ...rest }: ButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      className={`button ${kind} ${className ?? ''}`}
      disabled={rest.disabled || busy}
      aria-busy={busy || undefined}
    >
      {icon && <Icon name={icon} size={14} />}
      {children}
    </button>
  )
}

/** How long it says that it copied. */
const SAID_MS = 1_500

/** @param what names what is copied, for screen readers; `label` shows words beside the icon */
export function CopyButton({ text, what, label }: { text: string; what: string; label?: string }) {
  const [isCopied, setCopied] = useState(false)
  useEffect(() => {
    if (!isCopied) return undefined
    const timer = setTimeout(() => setCopied(false), SAID_MS)
    return () => clearTimeout(timer)
  }, [isCopied])
  const copy = () => {
    // A page over http on another machine has no clipboard.
    void navigator.clipboard?.writeText(text).then(() => setCopied(true))
  }
  return (
    <button
      type="button"
      className={label === undefined ? 'copy' : 'button quiet'}
      onClick={(event) => {
        event.preventDefault()
        event.stopPropagation()
        copy()
      }}
      aria-label={label === undefined ? (isCopied ? 'Copied' : `Copy ${what}`) : undefined}
      title={isCopied ? 'Copied' : `Copy ${what}`}
    >
      <Icon name={isCopied ? 'check' : 'copy'} size={12} />
      {label !== undefined && (isCopied ? 'Copied' : label)}
    </button>
  )
}

/** A command, or another line of text, to copy. @param what names it for screen readers */
export function CommandLine({ text, what = 'the command' }: { text: string; what?: string }) {
  return (
    <div className="command">
      <code>{text}</code>
      <CopyButton text={text} what={what} />
    </div>
  )
}

/** The longest text that is formatted: formatting more would hold up the page. */
const FORMATTED_CHARS_MAX = 200_000

/** A body as it was sent, indented if it is JSON. @param title names it above, with its own copy button */
export function Code({ title, text }: { readonly title: string; readonly text: string }) {
  return (
    <figure className="code">
      <figcaption>
        {title}
        <CopyButton text={text} what={title} />
      </figcaption>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls is reached by keyboard */}
      <pre tabIndex={0}>{pretty(text)}</pre>
    </figure>
  )
}

/** What TypeScript does not know of JSON yet. */
interface ExactJson {
  parse(
    text: string,
    revive: (key: string, value: unknown, context: { source: string }) => unknown,
  ): unknown
  /** Absent in older browsers. */
  rawJSON?(text: string): unknown
}

/** Indents JSON; its numbers stay as they were written, also those that are larger than a number holds. */
function pretty(text: string): string {
  if (text.length > FORMATTED_CHARS_MAX || !/^\s*[[{]/.test(text)) return text
  const json = JSON as unknown as ExactJson
  try {
    const parsed = json.parse(text, (_key, value, { source }) =>
      typeof value === 'number' && json.rawJSON ? json.rawJSON(source) : value,
    )
    return JSON.stringify(parsed, null, 2)
  } catch {
    return text
  }
}
