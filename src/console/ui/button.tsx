import { type ComponentProps, useEffect, useState } from 'react'
import { Icon, type IconName } from './icons.tsx'

export interface ButtonProps extends ComponentProps<'button'> {
  /** `danger`: the button takes away money or access. */
  readonly kind?: 'plain' | 'primary' | 'danger' | 'quiet'
  readonly icon?: IconName
  /** Whether the button waits for a call in progress. */
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

/** How long the button shows that it has copied. */
const SAID_MS = 1_500

/** @param what the copied text for screen readers @param label a text next to the icon */
export function CopyButton({ text, what, label }: { text: string; what: string; label?: string }) {
  const [isCopied, setCopied] = useState(false)
  useEffect(() => {
    if (!isCopied) return undefined
    const timer = setTimeout(() => setCopied(false), SAID_MS)
    return () => clearTimeout(timer)
  }, [isCopied])
  const copy = () => {
    // Browsers provide no clipboard to pages over http from another machine.
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

/** A command or another line of text, to copy. @param what its name for screen readers */
export function CommandLine({ text, what = 'the command' }: { text: string; what?: string }) {
  return (
    <div className="command">
      <code>{text}</code>
      <CopyButton text={text} what={what} />
    </div>
  )
}

/** The longest text that is formatted: formatting a longer text would block the page. */
const FORMATTED_CHARS_MAX = 200_000

/** A body as it was sent, indented if it is JSON. @param title the heading, next to a copy button */
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

/** The parts of `JSON` that TypeScript does not declare yet. */
interface ExactJson {
  parse(
    text: string,
    revive: (key: string, value: unknown, context: { source: string }) => unknown,
  ): unknown
  /** Absent in older browsers. */
  rawJSON?(text: string): unknown
}

/** Indents JSON without changing its numbers, which may exceed the precision of JavaScript. */
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
