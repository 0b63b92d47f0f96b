import { useTransport } from '@connectrpc/connect-query'
import { useRef, useState } from 'react'
import { saveFile } from '../../files/save-file.ts'
import { count } from '../../format/money.ts'
import { useViewScope } from '../../session/view-scope.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Dialog } from '../../ui/controls/dialog.tsx'
import { Failure } from '../../ui/lists/failure.tsx'
import { dayAt, periodOf } from './lagos-calendar.ts'
import { readStatement, type StatementFormat } from './statement-file.ts'

const TYPES = { csv: 'text/csv', json: 'application/json' } as const

/** Saves the statement of a business for a period. */
export function StatementDownload({ businessId }: { readonly businessId: string }) {
  const [isOpen, setOpen] = useState(false)
  const [read, setRead] = useState<{ readonly entries: number; readonly isDone: boolean }>()
  const [fault, setFault] = useState<unknown>()
  const ended = useRef(new AbortController())
  const transport = useTransport()
  const { live } = useViewScope()
  const isBusy = read !== undefined && !read.isDone
  const close = () => {
    ended.current.abort()
    setRead(undefined)
    setFault(undefined)
    setOpen(false)
  }
  const download = async (from: string, to: string, format: StatementFormat) => {
    ended.current = new AbortController()
    const { signal } = ended.current
    setFault(undefined)
    setRead({ entries: 0, isDone: false })
    try {
      const request = { businessId, test: !live, ...periodOf(from, to) }
      const progress = (entries: number) => {
        if (!signal.aborted) setRead({ entries, isDone: false })
      }
      const parts = await readStatement(transport, request, format, progress, signal)
      saveFile(`statement-${from}-${to}.${format}`, TYPES[format], parts)
      setRead((before) => before && { ...before, isDone: true })
    } catch (error) {
      if (signal.aborted) return
      setRead(undefined)
      setFault(error)
    }
  }
  return (
    <>
      <Button icon="download" onClick={() => setOpen(true)}>
        Statement
      </Button>
      <Dialog title="Statement" isOpen={isOpen} onClose={close}>
        <StatementForm isBusy={isBusy} onSubmit={(...values) => void download(...values)} />
        {read && (
          <p role="status">
            {count(read.entries)} entries {read.isDone ? 'saved' : 'read…'}
          </p>
        )}
        {fault !== undefined && <Failure error={fault} />}
        <div className="dialog-buttons">
          <Button onClick={close}>{read?.isDone ? 'Close' : 'Cancel'}</Button>
          <Button type="submit" form="statement" kind="primary" busy={isBusy}>
            Download
          </Button>
        </div>
      </Dialog>
    </>
  )
}

function StatementForm({
  onSubmit,
  isBusy,
}: {
  readonly onSubmit: (from: string, to: string, format: StatementFormat) => void
  readonly isBusy: boolean
}) {
  const today = dayAt(Date.now())
  return (
    <form
      id="statement"
      onSubmit={(event) => {
        event.preventDefault()
        const form = new FormData(event.currentTarget)
        const text = (name: string) => String(form.get(name))
        onSubmit(text('from'), text('to'), text('format') === 'json' ? 'json' : 'csv')
      }}
    >
      <div className="fields">
        <label className="field">
          From the day
          <input
            type="date"
            name="from"
            required
            defaultValue={`${today.slice(0, 8)}01`}
            max={today}
            disabled={isBusy}
          />
        </label>
        <label className="field">
          To the day
          <input type="date" name="to" required defaultValue={today} disabled={isBusy} />
        </label>
      </div>
      <label className="field">
        Format
        <select name="format" disabled={isBusy}>
          <option value="csv">CSV</option>
          <option value="json">JSON</option>
        </select>
      </label>
      <p className="hint">Days in Lagos, the last one included. Amounts are exact.</p>
    </form>
  )
}
