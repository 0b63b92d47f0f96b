import type { Timestamp } from '@bufbuild/protobuf/wkt'
import { shorten } from '../format/ids.ts'
import { naira } from '../format/money.ts'
import { msOf, timeText, timeTitle } from '../format/time.ts'
import { useNow } from './clock.ts'
import { CopyButton } from './controls/copy-button.tsx'

/** An amount of kobo; struck through when the payment was reversed. */
export function Money({
  minor,
  isReversed = false,
}: {
  readonly minor: bigint
  readonly isReversed?: boolean
}) {
  return <span className={isReversed ? 'money reversed' : 'money'}>{naira(minor)}</span>
}

/** A time: relative within an hour, else local; on hover in UTC and Lagos. */
export function Time({ at }: { readonly at: Timestamp | number | undefined }) {
  const now = useNow()
  const ms = typeof at === 'number' ? at : msOf(at)
  if (ms === undefined) return <span className="faint">–</span>
  return (
    <time dateTime={new Date(ms).toISOString()} title={timeTitle(ms)}>
      {timeText(ms, now)}
    </time>
  )
}

/** An id, shortened in the middle, whole on hover, copied by its button. */
export function Id({ text, charsMax = 16 }: { readonly text: string; readonly charsMax?: number }) {
  if (text === '') return <span className="faint">–</span>
  return (
    <span className="id">
      <code title={text}>{shorten(text, charsMax)}</code>
      <CopyButton text={text} what={text} />
    </span>
  )
}
