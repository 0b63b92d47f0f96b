import { useState } from 'react'

/** Takes a file that is dropped, or chosen. */
export function DropZone({
  name,
  onFile,
  isDisabled,
}: {
  /** Of the file that is chosen; undefined: none. */
  readonly name: string | undefined
  readonly onFile: (file: File) => void
  readonly isDisabled: boolean
}) {
  const [isOver, setOver] = useState(false)
  const take = (files: FileList | null) => {
    const file = files?.[0]
    if (file && !isDisabled) onFile(file)
  }
  return (
    <label
      className={isOver ? 'drop-zone over' : 'drop-zone'}
      onDragOver={(event) => {
        event.preventDefault()
        setOver(true)
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault()
        setOver(false)
        take(event.dataTransfer.files)
      }}
    >
      <input
        type="file"
        accept=".csv,text/csv"
        className="hidden"
        disabled={isDisabled}
        onChange={(event) => {
          take(event.target.files)
          // The same file may be chosen again after it was changed.
          event.target.value = ''
        }}
      />
      <strong>{name ?? 'Drop a statement here, or choose one'}</strong>
      <span className="faint">
        {name === undefined
          ? 'CSV with a line of headers. It is compared; nothing is recorded before you say so.'
          : 'Drop or choose another one to start again.'}
      </span>
    </label>
  )
}
