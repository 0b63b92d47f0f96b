import { useQuery } from '@connectrpc/connect-query'
import { useMemo, useState } from 'react'
import { AdminService } from '../../../gen/inflow/admin/v1/admin_service_pb.ts'
import { AuditEntrySchema } from '../../../gen/inflow/admin/v1/audit_pb.ts'
import {
  type ReconciliationRun,
  ReconciliationRunSchema,
} from '../../../gen/inflow/reconciliation/v1/reconciliation_run_pb.ts'
import { ReconciliationService } from '../../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { Bank, BankSchema } from '../../../gen/inflow/type/v1/bank_pb.ts'
import {
  STATEMENT_COLUMNS,
  type StatementColumn,
  type ValueFormat,
} from '../../core/statement-columns.ts'
import { bankName, type Choice, enumFieldChoices, enumName, enumValue } from '../format/enums.ts'
import { count } from '../format/money.ts'
import { useMay } from '../session/session.tsx'
import { Button } from '../ui/button.tsx'
import { columnsOf } from '../ui/columns.tsx'
import { Options } from '../ui/fields.tsx'
import { List, Table, usePagedList } from '../ui/list.tsx'
import { Failure, Page, Section, Waiting } from '../ui/page.tsx'
import { Status } from '../ui/values.tsx'
import { Comparison } from './comparison.tsx'
import { type ReadStatement, readCredits, readTable, type StatementTable } from './statement-csv.ts'
import { useComparison, useKept } from './use-comparison.ts'

/** The comparison of a bank's statement with recorded payments, and the automatic reconciliation runs. */
export function ReconciliationPage() {
  const may = useMay()
  const mayReconcile = may(ReconciliationService.method.reconcile)
  const mayList = may(AdminService.method.listAuditEntries)
  return (
    <Page title="Reconciliation">
      {mayReconcile ? (
        <StatementWorkbench />
      ) : (
        <p className="soft">Comparing a statement needs a token with the scope admin.</p>
      )}
      <Section title="Runs">
        <Runs />
      </Section>
      {mayList && (
        <Section title="Recorded from statements">
          <History />
        </Section>
      )}
    </Page>
  )
}

/** How often the progress of runs is read. It is polled, because no stream has it. */
const REFRESH_MS = 15_000

const RUN_COLUMNS = columnsOf(ReconciliationRunSchema, [
  ['Bank', ({ bank }) => <strong>{bankName(bank)}</strong>],
  ['Searches', 'scope'],
  ['State', (run) => <RunState run={run} />],
  ['Paid from', 'from'],
  ['to', 'to'],
  'missedCount',
  'nextAt',
])

/** The runs in which the service searches the lists of banks for payments without a notification. */
function Runs() {
  const read = useQuery(
    ReconciliationService.method.listReconciliationRuns,
    {},
    { refetchInterval: REFRESH_MS },
  )
  if (read.error) return <Failure error={read.error} onRetry={() => void read.refetch()} />
  if (read.isPending) return <Waiting rows={4} />
  const { runs } = read.data
  if (runs.length === 0) {
    return <p className="soft">No bank is live: the service searches live banks by itself.</p>
  }
  return (
    <Table
      label="Runs"
      columns={RUN_COLUMNS}
      rows={runs}
      keyOf={({ bank, scope }) => `${bank} ${scope}`}
    />
  )
}

function RunState({ run: { inProgress, failureCount } }: { readonly run: ReconciliationRun }) {
  if (failureCount > 0) return <Status tone="bad">{`Failed ${failureCount} times`}</Status>
  if (inProgress) return <Status tone="waiting">In progress</Status>
  return <Status tone="good">Finished</Status>
}

const HISTORY_COLUMNS = columnsOf(AuditEntrySchema, [
  ['Time', 'at'],
  ['Bank', ({ targetId }) => bankName(enumValue(BankSchema, targetId) ?? 0)],
  ['Who', ({ actor }) => actor?.name || actor?.id],
  ['Outcome', ({ details }) => outcomeText(details)],
])

/** The actions that used statements, and their actors. Comparisons that recorded nothing are not kept. */
function History() {
  const request = { action: 'statement.reconcile', pageSize: 10 }
  const entries = usePagedList(AdminService.method.listAuditEntries, 'entries', request)
  return (
    <List
      label="Recorded from statements"
      columns={HISTORY_COLUMNS}
      of={entries}
      keyOf={({ number }) => String(number)}
      empty={<p className="soft">Nothing yet.</p>}
    />
  )
}

const OUTCOMES: Readonly<Record<string, string>> = {
  rows: 'payments',
  recorded: 'recorded',
  unmatched: 'recorded as unmatched',
  review: 'queued for review',
  rejected: 'not confirmed by the bank',
  retry: 'undecided',
  late: 'not reached in time',
}

/** `3 payments: 2 recorded, 1 undecided`, from the counts in an audit entry. */
function outcomeText(details: string): string {
  const counts = JSON.parse(details || '{}') as Readonly<Record<string, number>>
  const texts = Object.entries(OUTCOMES).flatMap(([name, text]) =>
    counts[name] ? [`${count(counts[name])} ${text}`] : [],
  )
  const [all = '', ...rest] = texts
  const whole = counts['rows'] === 1 ? '1 payment' : all
  return rest.length === 0 ? whole : `${whole}: ${rest.join(', ')}`
}

interface Chosen {
  readonly name: string
  readonly table: StatementTable
}

/** The choices of the viewer, which stay while they visit other pages. */
interface Workbench {
  readonly chosen: Chosen | undefined
  readonly format: FormatChoice
  readonly columns: ReadonlyMap<StatementColumn, string>
}

const WORKBENCH: Workbench = {
  chosen: undefined,
  format: { bank: Bank.BANK_9PSB, dates: undefined, unit: 'naira' },
  columns: new Map(),
}

/** The steps with a statement: choose a file, name its columns, compare, and act. */
function StatementWorkbench() {
  const [{ chosen, format, columns }, setWorkbench] = useKept('statement', WORKBENCH)
  const [fault, setFault] = useState('')
  const update = (next: Partial<Workbench>) => setWorkbench((before) => ({ ...before, ...next }))
  const { comparison, compare, apply, stop, reset } = useComparison(format.bank)
  const statement = useMemo(
    () =>
      chosen &&
      readCredits(chosen.table, { ...format, bank: enumName(BankSchema, format.bank), columns }),
    [chosen, format, columns],
  )
  const choose = async (file: File) => {
    reset()
    setFault('')
    update({ columns: new Map() })
    try {
      update({ chosen: { name: file.name, table: await readTable(file) } })
    } catch (error) {
      update({ chosen: undefined })
      setFault(`${file.name}: ${error instanceof Error ? error.message : String(error)}`)
    }
  }
  const change = (next: FormatChoice) => {
    reset()
    update({ format: next })
  }
  const isBusy = comparison.state === 'running'
  return (
    <>
      <div className="workbench">
        <DropZone name={chosen?.name} onFile={(file) => void choose(file)} isDisabled={isBusy} />
        <FormatFields format={format} onChange={change} isDisabled={isBusy} />
      </div>
      {fault !== '' && (
        <p className="fault" role="alert">
          {fault}
        </p>
      )}
      {chosen && statement && (
        <ColumnChoice
          headers={chosen.table.headers}
          statement={statement}
          columns={columns}
          onChange={(next) => {
            reset()
            update({ columns: next })
          }}
        />
      )}
      {statement && comparison.state === 'idle' && (
        <Button
          kind="primary"
          disabled={statement.faults.length > 0 || statement.rows.length === 0}
          onClick={() => void compare(statement.rows)}
        >
          Compare {statement.rows.length} payments
        </Button>
      )}
      {comparison.state !== 'idle' && (
        <Comparison
          comparison={comparison}
          bank={format.bank}
          onApply={(outcomes) => void apply(outcomes)}
          onStop={stop}
        />
      )}
    </>
  )
}

interface DropZoneProps {
  /** The name of the chosen file; undefined: no file is chosen. */
  readonly name: string | undefined
  readonly onFile: (file: File) => void
  readonly isDisabled: boolean
}

function DropZone({ name, onFile, isDisabled }: DropZoneProps) {
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
          // Without this, choosing the same file again after a change would have no effect.
          event.target.value = ''
        }}
      />
      <strong>{name ?? 'Drop a statement here, or choose one'}</strong>
      <span className="faint">
        {name === undefined
          ? 'CSV with a line of headers. It is only compared; nothing is recorded until you confirm it.'
          : 'Drop or choose another file to start again.'}
      </span>
    </label>
  )
}

/** The bank of the statement, and the format of its values. */
interface FormatChoice extends ValueFormat {
  readonly bank: Bank
}

/** The orders of day and month that a statement may have. */
const DATES = [
  { value: '', label: '2026-11-20', dates: undefined },
  { value: 'day-first', label: '20/11/2026', dates: 'day-first' },
  { value: 'month-first', label: '11/20/2026', dates: 'month-first' },
] as const

const UNITS = [
  { value: 'naira', label: 'Naira' },
  { value: 'kobo', label: 'Kobo' },
]

interface FormatProps {
  readonly format: FormatChoice
  readonly onChange: (format: FormatChoice) => void
  readonly isDisabled: boolean
}

function FormatFields({ format, onChange, isDisabled }: FormatProps) {
  const change = (next: Partial<FormatChoice>) => onChange({ ...format, ...next })
  return (
    <fieldset className="format-fields" disabled={isDisabled}>
      <legend className="hidden">Format</legend>
      <Choose
        label="Bank"
        value={enumName(BankSchema, format.bank)}
        choices={enumFieldChoices(BankSchema)}
        onChoose={(text) => change({ bank: enumValue(BankSchema, text) ?? format.bank })}
      />
      <Choose
        label="Dates"
        value={format.dates ?? ''}
        choices={DATES}
        onChoose={(text) => change({ dates: DATES.find(({ value }) => value === text)?.dates })}
      />
      <Choose
        label="Amounts"
        value={format.unit}
        choices={UNITS}
        onChoose={(text) => change({ unit: text === 'kobo' ? 'kobo' : 'naira' })}
      />
    </fieldset>
  )
}

interface ChooseProps {
  readonly label: string
  readonly value: string
  readonly choices: readonly Choice[]
  readonly onChoose: (value: string) => void
}

function Choose({ label, value, choices, onChoose }: ChooseProps) {
  return (
    <label className="field">
      {label}
      <select value={value} onChange={(event) => onChoose(event.target.value)}>
        <Options choices={choices} />
      </select>
    </label>
  )
}

const COLUMN_TITLES: Readonly<Record<StatementColumn, string>> = {
  session: 'Session id',
  key: "Bank's own key",
  account: 'Account number',
  amount: 'Amount',
  time: 'Paid at',
  status: 'Status',
  direction: 'Debit or credit',
  payer: 'Payer',
  narration: 'Narration',
}

interface ColumnChoiceProps {
  readonly headers: readonly string[]
  readonly statement: ReadStatement
  readonly columns: ReadonlyMap<StatementColumn, string>
  readonly onChange: (columns: ReadonlyMap<StatementColumn, string>) => void
}

/** The columns of the headers: recognised, or chosen by the viewer. Faults are listed below. */
function ColumnChoice({ headers, statement, columns, onChange }: ColumnChoiceProps) {
  const { positions, rows, skipped, missing, faults } = statement
  const headerOf = (column: StatementColumn) => {
    const position = positions?.[column]
    return position === undefined ? (columns.get(column) ?? '') : (headers[position] ?? '')
  }
  const name = (column: StatementColumn, header: string) => {
    const next = new Map(columns)
    if (header === '') next.delete(column)
    else next.set(column, header)
    onChange(next)
  }
  return (
    <>
      <details className="column-choice" open={faults.length > 0}>
        <summary>
          {count(rows.length)} payments
          {skipped > 0 && `, ${count(skipped)} left out (debits, or not final)`} · columns
        </summary>
        <div className="column-fields">
          {STATEMENT_COLUMNS.map((column) => (
            <Choose
              key={column}
              label={COLUMN_TITLES[column]}
              value={headerOf(column)}
              choices={[
                { value: '', label: columns.has(column) ? 'As recognised' : '–' },
                ...headers.map((header) => ({ value: header, label: header })),
              ]}
              onChoose={(header) => name(column, header)}
            />
          ))}
        </div>
      </details>
      {faults.length > 0 && (
        <ul className="failure" role="alert">
          {missing ? (
            <li>
              No header is known to be “{COLUMN_TITLES[missing]}”
              {missing === 'session' && ', nor the bank’s own key'}. Choose it above.
            </li>
          ) : (
            faults.map((fault) => <li key={fault}>{fault}</li>)
          )}
          {faults.some((fault) => fault.includes('comes first')) && (
            <li>Choose above, under Dates, how the statement writes them.</li>
          )}
        </ul>
      )}
    </>
  )
}
