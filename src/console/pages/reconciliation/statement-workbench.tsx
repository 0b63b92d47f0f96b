import { useMemo, useState } from 'react'
import { Bank } from '../../../../gen/inflow/type/v1/bank_pb.ts'
import type { StatementColumn } from '../../../core/statement-columns.ts'
import { Button } from '../../ui/controls/button.tsx'
import { ColumnChoice } from './column-choice.tsx'
import { Comparison } from './comparison.tsx'
import { DropZone } from './drop-zone.tsx'
import { type FormatChoice, FormatFields } from './format-fields.tsx'
import {
  type ReadStatement,
  readCredits,
  readTable,
  type StatementRow,
  type StatementTable,
} from './statement-csv.ts'
import { useComparison } from './use-comparison.ts'

interface Chosen {
  readonly name: string
  readonly table: StatementTable
}

/** The name of a bank in the contract: what the known headers are listed by. */
function contractName(bank: Bank): string {
  const [name = ''] = Object.entries(Bank).find(([, value]) => value === bank) ?? []
  return name.replace('BANK_', '')
}

/** From a file to what it says: choose it, name its columns, compare, and act. */
export function StatementWorkbench() {
  const [chosen, setChosen] = useState<Chosen>()
  const [fault, setFault] = useState('')
  const [format, setFormat] = useState<FormatChoice>({
    bank: Bank.BANK_9PSB,
    dates: undefined,
    unit: 'naira',
  })
  const [columns, setColumns] = useState<ReadonlyMap<StatementColumn, string>>(new Map())
  const { comparison, compare, apply, stop, reset } = useComparison(format.bank)
  const statement = useMemo(
    () =>
      chosen && readCredits(chosen.table, { ...format, bank: contractName(format.bank), columns }),
    [chosen, format, columns],
  )
  const choose = async (file: File) => {
    reset()
    setFault('')
    setColumns(new Map())
    try {
      setChosen({ name: file.name, table: await readTable(file) })
    } catch (error) {
      setChosen(undefined)
      setFault(`${file.name}: ${error instanceof Error ? error.message : String(error)}`)
    }
  }
  const change = (next: FormatChoice) => {
    reset()
    setFormat(next)
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
            setColumns(next)
          }}
        />
      )}
      {statement && comparison.state === 'idle' && (
        <CompareButton statement={statement} onCompare={(rows) => void compare(rows)} />
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

function CompareButton({
  statement: { rows, faults },
  onCompare,
}: {
  readonly statement: ReadStatement
  readonly onCompare: (rows: readonly StatementRow[]) => void
}) {
  return (
    <Button
      kind="primary"
      disabled={faults.length > 0 || rows.length === 0}
      onClick={() => onCompare(rows)}
    >
      Compare {rows.length} payments
    </Button>
  )
}
