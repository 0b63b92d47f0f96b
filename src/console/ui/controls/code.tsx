import { CopyButton } from './copy-button.tsx'

/** A command, or another line of text, to copy. @param what names it for screen readers */
export function CommandLine({
  text,
  what = 'the command',
}: {
  readonly text: string
  readonly what?: string
}) {
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
