import { useState } from 'react'
import {
  type Pause,
  PauseSchema,
  PauseScope,
  PauseScopeSchema,
} from '../../../gen/inflow/payout/v1/payout_pb.ts'
import {
  PausePayoutsRequestSchema,
  PayoutService,
} from '../../../gen/inflow/payout/v1/payout_service_pb.ts'
import { BankSchema } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { bankName, enumName } from '../format/enums.ts'
import { useBusinessName } from '../session/business-names.ts'
import { Action } from '../ui/action.tsx'
import { columnsOf } from '../ui/columns.tsx'
import { BusinessField, Fields } from '../ui/form.tsx'
import { List, usePagedList } from '../ui/list.tsx'
import { Page, Section } from '../ui/page.tsx'
import { Floats } from './floats.tsx'
import { PayoutRules } from './payout-rules.tsx'
import { Requester } from './payout-words.tsx'

const METHODS = PayoutService.method

/** The pauses, the floats of the banks, and the rules of the installation, for operators. */
export function PayoutControlsPage() {
  return (
    <Page title="Float, pauses and rules">
      <Pauses />
      <Section title="Float">
        <Floats />
      </Section>
      <PayoutRules businessId="" title="Rules of the installation" />
    </Page>
  )
}

function Pauses() {
  const pauses = usePagedList(METHODS.listPauses, 'pauses', { pageSize: 50 }, { staleTime: 0 })
  return (
    <Section title="Pauses" actions={<PausePayouts />}>
      <List
        label="Pauses"
        columns={PAUSE_COLUMNS}
        of={pauses}
        keyOf={targetOf}
        empty={<p className="soft">Nothing is paused: payouts are sent as they are approved.</p>}
      />
    </Section>
  )
}

const PAUSE_COLUMNS = columnsOf(PauseSchema, [
  ['What', (pause) => <Paused pause={pause} />],
  ['Why', ({ reason }) => <span className="sentence">{reason}</span>, 'wide'],
  ['By', ({ pausedBy }) => <Requester of={pausedBy} />, 'wide'],
  ['Since', 'pausedAt', 'wide'],
  ['', (pause) => <Resume pause={pause} />],
])

function Paused({ pause: { scope, bank, businessId } }: { readonly pause: Pause }) {
  const name = useBusinessName(businessId)
  if (scope === PauseScope.BANK) return `Through ${bankName(bank)}`
  return scope === PauseScope.BUSINESS ? `Of ${name}` : 'All payouts'
}

/** The target of a pause, as the audit log has it. */
function targetOf({ scope, bank, businessId }: Pause): string {
  const bankCode = scope === PauseScope.BANK ? enumName(BankSchema, bank) : ''
  return `${enumName(PauseScopeSchema, scope)}:${bankCode || businessId}`
}

function Resume({ pause }: { readonly pause: Pause }) {
  const { scope, bank, businessId } = pause
  return (
    <Action
      method={METHODS.resumePayouts}
      label="Resume"
      target={targetOf(pause)}
      says="Payouts that waited for the end of the pause are sent at once."
      request={{ scope, bank, businessId }}
      fields={{ reason: { rows: 2 } }}
      isReadLater
    />
  )
}

/** @param businessId pauses only this business; absent: the form offers the choice */
export function PausePayouts({ businessId }: { readonly businessId?: string }) {
  const one = businessId !== undefined && { scope: PauseScope.BUSINESS, businessId }
  return (
    <Action
      method={METHODS.pausePayouts}
      label="Pause payouts"
      kind="danger"
      icon="pause"
      says="No more payouts are sent, at any instance. Payouts that are already being sent are not stopped. New payouts can still be requested, except by a paused business."
      request={one || {}}
      reason="Why (operators see this)"
      target={({ pause }) => (pause ? targetOf(pause) : '')}
    >
      {!one && <PauseFields />}
    </Action>
  )
}

function PauseFields() {
  const [scope, setScope] = useState('GLOBAL')
  return (
    <>
      <Fields
        of={PausePayoutsRequestSchema}
        show={{
          scope: { label: 'What', onChoose: setScope },
          ...(scope === 'BANK' && { bank: '' }),
        }}
      />
      {scope === 'BUSINESS' && <BusinessField />}
    </>
  )
}
