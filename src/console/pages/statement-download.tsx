import { type MessageInitShape, toJson } from '@bufbuild/protobuf'
import type { Client } from '@connectrpc/connect'
import { useState } from 'react'
import {
  type Balance,
  BalanceSchema,
  type Entry,
  EntrySchema,
} from '../../../gen/inflow/settlement/v1/settlement_pb.ts'
import {
  type ListEntriesRequestSchema,
  SettlementService,
} from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import {
  addsUp,
  balanceRecord,
  entryRecord,
  STATEMENT_HEADER,
} from '../../core/account-statement.ts'
import { csvText } from '../format/csv.ts'
import { count } from '../format/money.ts'
import { msOf } from '../format/time.ts'
import { useViewScope } from '../session/view-scope.tsx'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { dropDraft, useDraft, useDraftName } from '../ui/drafts.ts'
import { Failure } from '../ui/page.tsx'
import { useProgress } from '../ui/progress.ts'
import { saveFile } from '../ui/save-file.ts'
import { dayAt, periodOf } from './lagos-calendar.ts'

const TYPES = { csv: 'text/csv', json: 'application/json' } as const

/** The requested statement, and how much of it is read. */
interface Read {
  readonly from: string
  readonly to: string
  readonly format: StatementFormat
  readonly entries: number
}

const NOTHING: Read = { from: '', to: '', format: 'csv', entries: 0 }

export function StatementDownload({ businessId }: { readonly businessId: string }) {
  const [isOpen, setOpen] = useState(false)
  const { live } = useViewScope()
  const { state, at, error, start, reset } = useProgress(
    SettlementService,
    NOTHING,
    (client, { from, to, format }, { signal }) =>
      saveStatement(
        client,
        { businessId, test: !live, ...periodOf(from, to) },
        { name: `statement-${from}-${to}.${format}`, format, ...(signal && { signal }) },
      ),
    (read, entries) => ({ ...read, entries }),
  )
  const isBusy = state === 'running'
  const draft = useDraftName('statement', businessId)
  const close = () => {
    reset()
    setOpen(false)
  }
  return (
    <>
      <Button icon="download" onClick={() => setOpen(true)}>
        Statement
      </Button>
      <Dialog title="Statement" isOpen={isOpen} onClose={close}>
        <StatementForm draft={draft} isBusy={isBusy} onSubmit={start} />
        {(isBusy || state === 'done') && (
          <p role="status">
            {count(at.entries)} entries {isBusy ? 'read…' : 'saved'}
          </p>
        )}
        {error !== undefined && <Failure error={error} />}
        <div className="dialog-buttons">
          <Button
            onClick={() => {
              dropDraft(draft)
              close()
            }}
          >
            {state === 'done' ? 'Close' : 'Cancel'}
          </Button>
          <Button type="submit" form="statement" kind="primary" busy={isBusy}>
            Download
          </Button>
        </div>
      </Dialog>
    </>
  )
}

interface StatementFormProps {
  readonly draft: string
  readonly isBusy: boolean
  readonly onSubmit: (read: Read) => void
}

function StatementForm({ draft, isBusy, onSubmit }: StatementFormProps) {
  const today = dayAt(Date.now())
  return (
    <form
      id="statement"
      ref={useDraft(draft)}
      onSubmit={(event) => {
        event.preventDefault()
        const form = new FormData(event.currentTarget)
        const text = (name: string) => String(form.get(name))
        const format = text('format') === 'json' ? 'json' : 'csv'
        onSubmit({ from: text('from'), to: text('to'), format, entries: 0 })
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

/** The maximum page size of ListEntries. */
const PAGE_SIZE = 1_000

type StatementFormat = 'csv' | 'json'

/**
 * Reads a statement page by page, and saves it.
 *
 * @returns the number of entries that are read so far
 * @throws Error if the entries do not add up to the balances
 */
async function* saveStatement(
  client: Client<typeof SettlementService>,
  period: MessageInitShape<typeof ListEntriesRequestSchema>,
  { name, format, signal }: { name: string; format: StatementFormat; signal?: AbortSignal },
): AsyncGenerator<number> {
  const parts: string[] = []
  let opening: Balance | undefined
  let closing: Balance | undefined
  let entries = 0
  let pageToken = ''
  do {
    const request = { ...period, pageSize: PAGE_SIZE, pageToken }
    const page = await client.listEntries(request, signal ? { signal } : {})
    if (!addsUp(page, closing)) throw new Error('The entries do not add up: verify the ledger')
    opening ??= page.openingBalance
    closing = page.closingBalance
    if (page.entries.length > 0) parts.push(entriesText(page.entries, format, entries === 0))
    entries += page.entries.length
    yield entries
    pageToken = page.nextPageToken
  } while (pageToken !== '')
  const framed = format === 'csv' ? framedCsv : framedJson
  saveFile(name, TYPES[format], framed(parts, opening, closing))
}

function entriesText(entries: readonly Entry[], format: StatementFormat, isFirst: boolean): string {
  if (format === 'csv') {
    return csvText(entries.map((entry) => entryRecord(msOf(entry.bookedAt), entry)))
  }
  const text = entries.map((entry) => JSON.stringify(toJson(EntrySchema, entry))).join(',\n')
  return isFirst ? text : `,\n${text}`
}

function framedCsv(
  parts: readonly string[],
  opening: Balance | undefined,
  closing: Balance | undefined,
): string[] {
  const head = csvText([STATEMENT_HEADER, balanceRecord('OPENING_BALANCE', opening)])
  return [head, ...parts, csvText([balanceRecord('CLOSING_BALANCE', closing)])]
}

function framedJson(
  parts: readonly string[],
  opening: Balance | undefined,
  closing: Balance | undefined,
): string[] {
  const text = (balance: Balance | undefined) =>
    JSON.stringify(balance ? toJson(BalanceSchema, balance) : {})
  return [
    `{"openingBalance": ${text(opening)},\n"entries": [\n`,
    ...parts,
    `\n],\n"closingBalance": ${text(closing)}}\n`,
  ]
}
