import type { MessageInitShape } from '@bufbuild/protobuf'
import { useState } from 'react'
import type { Account } from '../../../gen/inflow/account/v1/account_pb.ts'
import {
  AccountService,
  type ResolveAccountRequestSchema,
} from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { useRestricted } from '../session/session.tsx'
import { Action } from '../ui/action.tsx'
import { type FormValues, SelectField, TextField } from '../ui/form.tsx'
import { openingOf } from './account-words.ts'

/** Ends a pending opening with what an operator learned from the bank. */
export function ResolveOpening({ account }: { readonly account: Account }) {
  const { businessId, reference, bankName, opening, id } = account
  return (
    <Action
      method={AccountService.method.resolveAccount}
      label="Resolve"
      target={id}
      says={
        <>
          <p>{openingOf(opening?.state)?.says}</p>
          {opening?.cause && <p className="faint">{opening.cause}</p>}
        </>
      }
      request={(_reason, form) => ({
        businessId,
        reference,
        resolution: readResolution(form),
      })}
      result={({ account: opened }) => (
        <p>
          {opened
            ? `The account is open: ${opened.accountNumber}.`
            : 'The reference may be used again.'}
        </p>
      )}
      onClosed={() => {}}
    >
      <Result bankName={bankName} />
    </Action>
  )
}

function readResolution(
  form: FormValues,
): NonNullable<MessageInitShape<typeof ResolveAccountRequestSchema>['resolution']> {
  if (form.text('result') !== 'opened') return { case: 'notOpened', value: true }
  const value = {
    accountNumber: form.text('opened.accountNumber'),
    accountName: form.text('opened.accountName'),
    bankAccountId: form.text('opened.bankAccountId'),
  }
  return { case: 'opened', value }
}

function Result({ bankName }: { readonly bankName: string }) {
  const mayOpen = !useRestricted()
  const [result, setResult] = useState('notOpened')
  const nothing = { value: 'notOpened', label: 'It opened nothing: the reference becomes free' }
  const opened = { value: 'opened', label: 'It opened this account' }
  return (
    <>
      <SelectField
        name="result"
        label={`What ${bankName} says`}
        choices={mayOpen ? [nothing, opened] : [nothing]}
        onChoose={setResult}
      />
      {result === 'opened' && (
        <>
          <TextField
            name="opened.accountNumber"
            label="Account number"
            required
            pattern="[0-9]{10}"
            maxLength={10}
          />
          <TextField
            name="opened.accountName"
            label="Account name"
            hint="Empty: the requested name."
            maxLength={200}
          />
          <TextField
            name="opened.bankAccountId"
            label="The bank's own id of it, if its API needs one"
            maxLength={200}
          />
        </>
      )}
    </>
  )
}
