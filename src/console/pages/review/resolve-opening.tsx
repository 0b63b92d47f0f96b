import { useState } from 'react'
import { AccountService } from '../../../../gen/inflow/account/v1/account_service_pb.ts'
import type { ReviewItem } from '../../../../gen/inflow/overview/v1/review_pb.ts'
import { useRestricted } from '../../session/session.tsx'
import { Action } from '../../ui/controls/action.tsx'
import { SelectField, TextField } from '../../ui/form/fields.tsx'

export interface DecisionProps {
  readonly item: ReviewItem
  /** The result was read. */
  readonly onDecided: () => void
}

/** Says whether the bank opened an account. Only an operator can know its number. */
export function ResolveOpening({ item, onDecided }: DecisionProps) {
  const isRestricted = useRestricted()
  return (
    <Action
      method={AccountService.method.resolveAccount}
      label="Resolve the opening"
      kind="primary"
      says={
        isRestricted
          ? 'States that the bank did not open the account. Its reference can be used again.'
          : 'States what the bank says: whether it opened the account, and with which number.'
      }
      request={(_reason, form) => ({
        businessId: item.businessId,
        reference: item.id,
        resolution:
          form.text('answer') === 'opened'
            ? {
                case: 'opened' as const,
                value: {
                  accountNumber: form.text('opened.accountNumber'),
                  accountName: form.text('opened.accountName'),
                  bankAccountId: form.text('opened.bankAccountId'),
                },
              }
            : { case: 'notOpened' as const, value: true },
      })}
      target=""
      onClosed={onDecided}
    >
      {!isRestricted && <Answer />}
    </Action>
  )
}

const ANSWERS = [
  { value: 'opened', label: 'The bank opened it' },
  { value: 'not opened', label: 'The bank did not open it' },
]

function Answer() {
  const [answer, setAnswer] = useState('opened')
  return (
    <>
      <SelectField
        name="answer"
        label="What the bank says"
        choices={ANSWERS}
        value={answer}
        onChoose={setAnswer}
      />
      {answer === 'opened' && (
        <>
          <TextField
            name="opened.accountNumber"
            label="Account number"
            required
            pattern="[0-9]{10}"
            maxLength={10}
            hint="Ten digits"
          />
          <TextField name="opened.accountName" label="Account name" maxLength={200} />
          <TextField
            name="opened.bankAccountId"
            label="The bank's own id"
            maxLength={200}
            hint="Where the bank has one"
          />
        </>
      )}
    </>
  )
}
