import { CommandLine } from './code.tsx'

/** A secret that is shown once, and the box that says that it is kept. */
export function Secret({
  text,
  note = 'It is shown only now: Inflow cannot show it again.',
  isKept,
  setKept,
}: {
  readonly text: string
  readonly note?: string | undefined
  readonly isKept: boolean
  readonly setKept: (isKept: boolean) => void
}) {
  return (
    <>
      <p>{note}</p>
      <CommandLine text={text} what="the secret" />
      <label className="choice">
        <input
          type="checkbox"
          checked={isKept}
          onChange={(event) => setKept(event.target.checked)}
        />{' '}
        I have kept it
      </label>
    </>
  )
}
