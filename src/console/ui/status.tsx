/** The four states, each with a shape of its own: never colour alone. */
export type Tone = 'good' | 'waiting' | 'bad' | 'neutral'

const SHAPES: Readonly<Record<Tone, string>> = {
  good: 'M3 8.5 6.5 12 13 4.5',
  waiting: 'M8 3v5l3 2M8 1.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13',
  bad: 'M4 4l8 8M12 4l-8 8',
  neutral: 'M3 8h10',
}

/** A state in a word. */
export function Status({ tone, children }: { readonly tone: Tone; readonly children: string }) {
  return (
    <span className={`status ${tone}`}>
      <svg className="icon" width="12" height="12" viewBox="0 0 16 16" aria-hidden="true">
        <path d={SHAPES[tone]} />
      </svg>
      {children}
    </span>
  )
}
