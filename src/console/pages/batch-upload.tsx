import type { MessageInitShape } from '@bufbuild/protobuf'
import { useEffect, useState } from 'react'
import type { PayoutItemSchema } from '../../../gen/inflow/payout/v1/payout_pb.ts'
import {
  CreatePayoutsRequestSchema,
  PayoutService,
} from '../../../gen/inflow/payout/v1/payout_service_pb.ts'
import { amountInWords } from '../../core/money.ts'
import { count, naira, parseNaira } from '../format/money.ts'
import { useBusinessName } from '../session/business-names.ts'
import { useViewScope } from '../session/view-scope.tsx'
import { Action } from '../ui/action.tsx'
import { TextField, useViolations } from '../ui/fields.tsx'
import { BusinessField, Fields } from '../ui/form.tsx'
import { PageLink } from '../ui/values.tsx'
import { readTable } from './statement-csv.ts'

/** The content of a file. */
interface BatchFile {
  readonly items: readonly MessageInitShape<typeof PayoutItemSchema>[]
  /** The line numbers of the items, beginning with 1. */
  readonly lines: readonly number[]
  readonly faults: readonly string[]
}

const NOTHING: BatchFile = { items: [], lines: [], faults: [] }

/** Requests the payouts of a CSV file as one batch, after the viewer has confirmed their sum in words. */
export function UploadBatch() {
  const { live } = useViewScope()
  const [file, setFile] = useState(NOTHING)
  const { items } = file
  return (
    <Action
      method={PayoutService.method.createPayouts}
      label="Upload a batch"
      kind="primary"
      icon="plus"
      target={({ batch }) => batch?.id ?? ''}
      says="Requests all payouts of a file. If a row is wrong, none is requested."
      request={{ items: [...items], live }}
      confirm={({ businessId = '' }) => <Confirm businessId={businessId} items={items} />}
      result={({ batch, replayed }) =>
        batch && (
          <p>
            <PageLink to={`/payouts/batches/${batch.businessId}/${batch.id}`}>
              {count(batch.count)} payouts
            </PageLink>{' '}
            {replayed ? 'were requested before.' : 'are requested. Banks now state the names.'}
          </p>
        )
      }
    >
      <BusinessField />
      <Fields
        of={CreatePayoutsRequestSchema}
        show={{
          reference: {
            placeholder: 'salaries-11',
            hint: 'Your own. The same file under the same reference pays once.',
          },
        }}
      />
      <BatchFileField read={file} onRead={setFile} />
    </Action>
  )
}

const sumOf = (items: BatchFile['items']) =>
  items.reduce((sum, { amountMinor = 0n }) => sum + amountMinor, 0n)

function Confirm({
  businessId,
  items,
}: Pick<BatchFile, 'items'> & { readonly businessId: string }) {
  const { live } = useViewScope()
  const name = useBusinessName(businessId)
  return (
    <>
      <BatchSum amountMinor={sumOf(items)} payouts={items.length} />
      <p>
        Out of the available balance of {name} in {live ? 'live' : 'test'} mode, with their fees and
        duties. A row whose account has another name is refused. A bank cannot call back what it has
        paid.
      </p>
    </>
  )
}

/** The sum of payouts in figures and in words, for confirmation. */
export function BatchSum({ amountMinor, payouts }: { amountMinor: bigint; payouts: number }) {
  return (
    <div className="amount-to">
      <strong className="money">{naira(amountMinor)}</strong>
      <span>{amountInWords(amountMinor)}</span>
      <span>{payouts === 1 ? 'in one payout' : `in ${count(payouts)} payouts`}</span>
    </div>
  )
}

interface BatchFileFieldProps {
  readonly read: BatchFile
  readonly onRead: (file: BatchFile) => void
}

function BatchFileField({ read, onRead }: BatchFileFieldProps) {
  // The form is created anew each time, and its file is not kept.
  useEffect(() => onRead(NOTHING), [onRead])
  const violations = useViolations('items')
  const shown = [
    ...read.faults,
    ...violations.map(({ field, description }) => `${placeOf(field, read.lines)} ${description}`),
  ]
  return (
    <>
      <TextField
        type="file"
        name="file"
        label="File"
        required
        accept=".csv,text/csv"
        hint={`CSV with a line of headers: ${COLUMNS.join(', ')}, and optionally narration. Amounts are in naira.`}
        fault={faultOf(read)}
        onFile={(file) => {
          onRead(NOTHING)
          if (file) void readBatch(file).then(onRead)
        }}
      />
      {shown.length > 0 && (
        <div className="fault" role="alert">
          <ul>
            {shown.slice(0, FAULTS_SHOWN_MAX).map((text) => (
              <li key={text}>{text}</li>
            ))}
            {shown.length > FAULTS_SHOWN_MAX && <li>{shown.length - FAULTS_SHOWN_MAX} more</li>}
          </ul>
        </div>
      )}
    </>
  )
}

const FAULTS_SHOWN_MAX = 20

/** Why the file prevents sending the form; empty: it does not. */
function faultOf({ items, faults }: BatchFile): string {
  if (faults.length > 0) return 'The file has faults'
  return items.length === 0 ? 'Choose a file' : ''
}

/** Replaces the index in `items[3].beneficiary.accountName` by the line of the file. */
function placeOf(field: string, lines: readonly number[]): string {
  const [, index, name] = /^items\[(\d+)\](?:\.(.*))?$/.exec(field) ?? []
  if (index === undefined) return 'The payouts'
  return `Line ${lines[Number(index)]}${name === undefined ? '' : `: ${inColumns(name)}`}`
}

/** Replaces the field names in a fault by the names of their columns. */
export function inColumns(text: string): string {
  return text.replace(/^[\w.]+/, (field) => COLUMN_OF[field] ?? field)
}

/** The columns, which are the same as those of `inflow payout import`. */
const COLUMNS = [
  'reference',
  'amount',
  'beneficiary_bank_code',
  'beneficiary_account_number',
  'beneficiary_account_name',
] as const

const COLUMN_OF: Readonly<Record<string, string>> = {
  amountMinor: 'amount',
  'beneficiary.bankCode': 'beneficiary_bank_code',
  'beneficiary.accountNumber': 'beneficiary_account_number',
  'beneficiary.accountName': 'beneficiary_account_name',
  beneficiary: 'beneficiary_account_name',
}

/** The most items of a batch. */
const ITEMS_MAX = 5_000

/** Reads a file by its headers. The service checks the values. */
async function readBatch(file: File): Promise<BatchFile> {
  try {
    const { headers, records } = await readTable(file)
    const names = headers.map((name) => name.trim())
    const missing = COLUMNS.filter((name) => !names.includes(name))
    if (missing.length > 0) return failed(`The file lacks the columns ${missing.join(', ')}`)
    if (records.length === 0) return failed('The file has no payouts')
    if (records.length > ITEMS_MAX) return failed('A batch has at most 5,000 payouts: divide it')
    const faults: string[] = []
    const items = records.map(({ line, fields }) => {
      const value = (name: string) => fields[names.indexOf(name)]?.trim() ?? ''
      const amountMinor = parseNaira(value('amount'))
      if (fields.length !== names.length) faults.push(`Line ${line} has ${fields.length} columns`)
      else if (amountMinor === undefined) faults.push(`Line ${line}: amount is no amount in naira`)
      return {
        reference: value('reference'),
        amountMinor: amountMinor ?? 0n,
        beneficiary: {
          bankCode: value('beneficiary_bank_code'),
          accountNumber: value('beneficiary_account_number'),
          accountName: value('beneficiary_account_name'),
        },
        narration: value('narration'),
      }
    })
    return { items, lines: records.map(({ line }) => line), faults }
  } catch (error) {
    return failed(error instanceof Error ? error.message : String(error))
  }
}

function failed(fault: string): BatchFile {
  return { ...NOTHING, faults: [fault] }
}
