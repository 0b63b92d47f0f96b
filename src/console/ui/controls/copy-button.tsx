import { useEffect, useState } from 'react'
import { Icon } from '../icons.tsx'

/** How long it says that it copied. */
const SAID_MS = 1_500

/** @param what names what is copied, for screen readers; `label` shows words beside the icon */
export function CopyButton({
  text,
  what,
  label,
}: {
  readonly text: string
  readonly what: string
  readonly label?: string
}) {
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
