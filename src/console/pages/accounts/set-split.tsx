import { useState } from 'react'
import type { Account } from '../../../../gen/inflow/account/v1/account_pb.ts'
import { AccountService } from '../../../../gen/inflow/account/v1/account_service_pb.ts'
import { FeeBearer, type Split } from '../../../../gen/inflow/account/v1/split_pb.ts'
import { Action } from '../../ui/controls/action.tsx'
import { Button } from '../../ui/controls/button.tsx'
import { SelectField, TextField } from '../../ui/form/fields.tsx'
import { RECIPIENTS_MAX, readShare, readSplit } from './account-request.ts'
import { shareText } from './account-words.ts'

/** Divides what is paid into an account from now on. */
export function SetSplit({ account }: { readonly account: Account }) {
  const { id, businessId, reference, split } = account
  return (
    <Action
      method={AccountService.method.setAccountSplit}
      label="Set split"
      target={id}
      says="Divides the payments that are recorded from now on. The shares are taken in this order, and the business keeps the rest. Without rows it keeps everything."
      request={(_reason, form) => ({ businessId, reference, split: readSplit(form) })}
    >
      <SplitFields split={split} />
    </Action>
  )
}

const BEARERS = [
  { value: 'owner', label: 'The business' },
  { value: 'shared', label: 'All, in proportion to their shares' },
]

function SplitFields({ split }: { readonly split: Split | undefined }) {
  const recipients = split?.recipients ?? []
  const [rows, setRows] = useState(Math.max(1, recipients.length))
  return (
    <>
      {Array.from({ length: rows }, (_, index) => {
        const recipient = recipients[index]
        return (
          // biome-ignore lint/suspicious/noArrayIndexKey: rows are only added at the end
          <div className="fields" key={index}>
            <TextField
              name={`split.recipients[${index}].businessId`}
              label={`Business ${index + 1}`}
              placeholder="biz_…"
              maxLength={60}
              value={recipient?.businessId ?? ''}
            />
            <TextField
              name={`split.recipients[${index}].basisPoints`}
              label="Share"
              placeholder="12.5% or 500.00"
              value={recipient ? shareText(recipient) : ''}
              check={(text) =>
                readShare(text) ? undefined : 'A percentage such as 12.5%, or an amount of naira'
              }
            />
          </div>
        )
      })}
      {rows < RECIPIENTS_MAX && (
        <Button icon="plus" onClick={() => setRows(rows + 1)}>
          Another business
        </Button>
      )}
      <SelectField
        name="split.feeBearer"
        label="Who bears the fee"
        choices={BEARERS}
        value={split?.feeBearer === FeeBearer.SHARED ? 'shared' : 'owner'}
      />
    </>
  )
}
