import { useQuery } from '@connectrpc/connect-query'
import { useState } from 'react'
import { Schedule, type Terms } from '../../../gen/inflow/settlement/v1/settlement_pb.ts'
import { SettlementService } from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { formatAmount } from '../../core/money.ts'
import { naira, parseNaira } from '../format/money.ts'
import { Action } from '../ui/action.tsx'
import { type FormValues, SelectField, TextField } from '../ui/form.tsx'
import { Facts, Failure, Section, Waiting } from '../ui/page.tsx'

/** When the payments of a business are settled, and for which fee. */
export function SettlementTerms({ businessId }: { readonly businessId: string }) {
  const read = useQuery(SettlementService.method.getSettlementTerms, { businessId })
  const { terms } = read.data ?? {}
  return (
    <Section title="Terms" actions={terms && <Edit businessId={businessId} terms={terms} />}>
      {read.error && <Failure error={read.error} onRetry={() => void read.refetch()} />}
      {read.isPending && <Waiting rows={3} />}
      {terms && (
        <Facts
          facts={[
            ['Payments are due', dueText(terms)],
            ['Fee', feeText(terms)],
            ['At most', terms.feeCapMinor > 0n && naira(terms.feeCapMinor)],
          ]}
        />
      )}
    </Section>
  )
}

function dueText({ schedule, workingDays, cutOff }: Terms): string {
  const time = cutOff || '00:00'
  if (schedule === Schedule.INSTANT) return 'within a minute'
  if (schedule === Schedule.DAILY) return `daily at ${time} in Lagos`
  return `at ${time} in Lagos, ${workingDays} working day${workingDays === 1 ? '' : 's'} later`
}

function feeText({ feeFlatMinor, feeBasisPoints }: Terms): string {
  const parts = [
    feeFlatMinor > 0n && naira(feeFlatMinor),
    feeBasisPoints > 0 && `${percentText(feeBasisPoints)} %`,
  ]
  return parts.filter(Boolean).join(' and ') || 'none'
}

/** Basis points as percent: 150 → "1.5". */
function percentText(basisPoints: number): string {
  return `${basisPoints / 100}`
}

function readTerms(form: FormValues) {
  const schedule = Number(form.text('terms.schedule')) as Schedule
  return {
    schedule,
    workingDays: schedule === Schedule.WORKING_DAYS ? form.whole('terms.workingDays') : 0,
    cutOff: schedule === Schedule.INSTANT ? '' : form.text('terms.cutOff'),
    feeFlatMinor: form.kobo('terms.feeFlatMinor'),
    feeBasisPoints: Math.round(Number(form.text('terms.feeBasisPoints')) * 100),
    feeCapMinor: form.kobo('terms.feeCapMinor'),
  }
}

function Edit({ businessId, terms }: { readonly businessId: string; readonly terms: Terms }) {
  return (
    <Action
      method={SettlementService.method.updateSettlementTerms}
      label="Change the terms"
      says="They apply in both modes, to all payments that are not settled yet. A settlement that runs keeps the fees it started with."
      request={(_reason, form) => ({ businessId, terms: readTerms(form) })}
      target={businessId}
    >
      <TermsFields terms={terms} />
    </Action>
  )
}

const SCHEDULES = [
  { value: `${Schedule.INSTANT}`, label: 'Within a minute' },
  { value: `${Schedule.DAILY}`, label: 'Daily' },
  { value: `${Schedule.WORKING_DAYS}`, label: 'After working days' },
]

const isAmount = (text: string) =>
  parseNaira(text) === undefined ? 'Write naira, such as 50 or 1,500.50' : undefined

function TermsFields({ terms }: { readonly terms: Terms }) {
  const [schedule, setSchedule] = useState(`${terms.schedule}`)
  const amount = (minor: bigint) => (minor > 0n ? formatAmount(minor) : '')
  return (
    <>
      <SelectField
        name="terms.schedule"
        label="Payments are due"
        choices={SCHEDULES}
        value={schedule}
        onChoose={setSchedule}
      />
      <div className="fields">
        {schedule === `${Schedule.WORKING_DAYS}` && (
          <TextField
            name="terms.workingDays"
            label="Working days after the payment"
            type="number"
            min={1}
            max={30}
            required
            value={terms.workingDays || 1}
          />
        )}
        {schedule !== `${Schedule.INSTANT}` && (
          <TextField
            name="terms.cutOff"
            label="Time in Lagos"
            placeholder="00:00"
            pattern="([01][0-9]|2[0-3]):[0-5][0-9]"
            value={terms.cutOff}
          />
        )}
        <TextField
          name="terms.feeFlatMinor"
          label="Fee for each payment, ₦"
          value={amount(terms.feeFlatMinor)}
          check={isAmount}
        />
        <TextField
          name="terms.feeBasisPoints"
          label="Fee in percent"
          pattern="\d{1,3}([.]\d{1,2})?"
          value={terms.feeBasisPoints > 0 ? percentText(terms.feeBasisPoints) : ''}
        />
        <TextField
          name="terms.feeCapMinor"
          label="Fee at most, ₦"
          hint="Empty: no maximum"
          value={amount(terms.feeCapMinor)}
          check={isAmount}
        />
      </div>
    </>
  )
}
