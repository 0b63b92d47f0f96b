import type { MessageInitShape } from '@bufbuild/protobuf'
import { type ReactNode, useState } from 'react'
import {
  type Account,
  IdTypeSchema,
  type OpeningState,
  OpeningStateSchema,
} from '../../../gen/inflow/account/v1/account_pb.ts'
import {
  AccountService,
  CreateAccountRequestSchema,
  ResolveAccountRequestSchema,
  SetAccountSplitRequestSchema,
} from '../../../gen/inflow/account/v1/account_service_pb.ts'
import {
  FeeBearer,
  type Split,
  type SplitRecipientSchema,
} from '../../../gen/inflow/account/v1/split_pb.ts'
import { AmountRule } from '../../../gen/inflow/account/v1/terms_pb.ts'
import { BankSchema } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { type Choice, enumFieldChoices, enumName } from '../format/enums.ts'
import { naira, parseNaira } from '../format/money.ts'
import { useRestricted } from '../session/session.tsx'
import { useViewScope } from '../session/view-scope.tsx'
import { Action } from '../ui/action.tsx'
import { Button } from '../ui/button.tsx'
import { SelectField, TextField } from '../ui/fields.tsx'
import { BusinessField, type FieldSpecs, Fields, type FormValues } from '../ui/form.tsx'
import { PageLink } from '../ui/values.tsx'

export function pathOfAccount({ businessId, reference }: Account): string {
  return `/accounts/${businessId}/${reference}`
}

const OPENINGS: Readonly<Record<string, string>> = {
  CREATING: 'The service is asking the bank.',
  RETRYABLE: "The bank opened nothing. The business's next request asks it again.",
  RETRYING: 'The result is unclear. The service repeats the request.',
  REQUERYING: 'The result is unclear. The service asks the bank for it.',
  MANUAL_REVIEW:
    'The result is unclear, and another request could open a second account. Ask the bank, and resolve it.',
}

/** Describes the next step of an account that is not open yet. */
export function openingText(state: OpeningState | undefined): string | undefined {
  return OPENINGS[enumName(OpeningStateSchema, state ?? 0)]
}

export function OpenAccount() {
  const { live } = useViewScope()
  return (
    <Action
      method={AccountService.method.createAccount}
      label="Open account"
      kind="primary"
      icon="plus"
      says={
        live
          ? 'Opens an account at the bank, in live mode.'
          : 'Opens an account in test mode, where the sandbox serves every bank.'
      }
      target={({ account }) => account?.id ?? ''}
      request={(form, { amountMinor, amountRule }) => ({
        test: !live,
        amountRule: amountMinor ? (amountRule ?? AmountRule.ANY) : AmountRule.UNSPECIFIED,
        allowedPayers: form.lines('allowedPayers').map(readPayer),
      })}
      result={({ account, replayed }) =>
        account && (
          <p>
            {replayed ? 'It was open already: ' : 'Opened: '}
            <code>{account.accountNumber}</code> at {account.bankName}, {account.accountName}.{' '}
            <PageLink to={pathOfAccount(account)}>Look at it</PageLink>
          </p>
        )
      }
    >
      <BusinessField />
      <BankFields />
      <Fields of={CreateAccountRequestSchema} show={CUSTOMER} />
      <details>
        <summary>One-time terms, and metadata</summary>
        <p className="hint">
          With any of these terms it is a one-time account: a payment that differs is held, and it
          closes by itself.
        </p>
        <Fields of={CreateAccountRequestSchema} show={TERMS} />
      </details>
    </Action>
  )
}

/** `0123456789`, `0123456789 000013`, or a name. */
function readPayer(line: string) {
  const [, accountNumber = '', bankCode = ''] = /^(\d{10})(?:\s+(\w+))?$/.exec(line) ?? []
  return accountNumber === '' ? { name: line } : { accountNumber, bankCode }
}

export const BANKS: readonly Choice[] = enumFieldChoices(BankSchema).map(({ value, label }) => ({
  value,
  label: value === '9PSB' ? '9 Payment Service Bank' : label,
}))

const CUSTOMER: FieldSpecs = [
  { firstName: '', lastName: '', email: '', phone: { placeholder: '08012345678' } },
]

const TERMS: FieldSpecs = [
  {
    amountMinor: { label: 'Expected amount, in naira', placeholder: '5,000.50' },
    amountRule: '',
    expiresAt: '',
    singleUse: '',
  },
  {
    allowedPayers: {
      label: 'Who may pay',
      rows: 2,
      placeholder: '0123456789 000013\nAda Obi',
      hint: 'One per line: an account number with or without the code of its bank, or a name.',
    },
  },
  { metadata: { rows: 2, placeholder: 'invoice=7', hint: 'One a line: key=value.' } },
]

/** PalmPay checks the customer's identity. */
const IDENTITY: FieldSpecs = [{ idType: '', idNumber: { required: true } }]

/** Safe Haven opens permanent accounts for verified customers. */
const VERIFICATION: FieldSpecs = [
  {
    identityId: 'Id of the verification',
    otp: { hint: 'Enter the identity number too.' },
  },
  {
    idType: { choices: [{ value: '', label: 'None' }, ...enumFieldChoices(IdTypeSchema)] },
    idNumber: '',
  },
]

function BankFields() {
  const [bank, setBank] = useState('9PSB')
  const own = {
    reference: { label: "The business's own reference", placeholder: 'order-1' },
  }
  return (
    <>
      <Fields
        of={CreateAccountRequestSchema}
        show={[{ bank: { choices: BANKS, value: bank, onChoose: setBank }, ...own }]}
      />
      {bank === 'PALMPAY' && <Fields of={CreateAccountRequestSchema} show={IDENTITY} />}
      {bank === 'SAFEHAVEN' && <Fields of={CreateAccountRequestSchema} show={VERIFICATION} />}
    </>
  )
}

interface ResolveProps {
  readonly account: Pick<Account, 'businessId' | 'reference'>
  readonly label?: string
  readonly kind?: 'primary'
  readonly says: ReactNode
  /** The target of the audit entry that the result names; empty: there is no such entry. */
  readonly target: string
  readonly question: string
  readonly onClosed: () => void
}

/** Ends a pending opening with what an operator learned from the bank. */
export function ResolveOpening({ account, label = 'Resolve', question, ...rest }: ResolveProps) {
  const { businessId, reference } = account
  return (
    <Action
      {...rest}
      method={AccountService.method.resolveAccount}
      label={label}
      request={(form, read) => ({
        businessId,
        reference,
        resolution:
          form.text('result') === 'opened' && read.resolution
            ? read.resolution
            : { case: 'notOpened' as const, value: true },
      })}
      result={({ account: opened }) => (
        <p>
          {opened
            ? `The account is open: ${opened.accountNumber}.`
            : 'The reference may be used again.'}
        </p>
      )}
    >
      <Resolution question={question} />
    </Action>
  )
}

const NOT_OPENED = { value: 'notOpened', label: 'It opened nothing: the reference becomes free' }
const OPENED = { value: 'opened', label: 'It opened this account' }

/** The form of a resolution. Only an operator can enter the number of an account. */
function Resolution({ question }: { readonly question: string }) {
  const mayOpen = !useRestricted()
  const [result, setResult] = useState('notOpened')
  return (
    <>
      <SelectField
        name="result"
        label={question}
        choices={mayOpen ? [NOT_OPENED, OPENED] : [NOT_OPENED]}
        onChoose={setResult}
      />
      {result === 'opened' && (
        <Fields
          of={ResolveAccountRequestSchema}
          show={{
            'opened.accountNumber': { required: true },
            'opened.accountName': { hint: 'Empty: the requested name.' },
            'opened.bankAccountId': "The bank's own id of it, if its API needs one",
          }}
        />
      )}
    </>
  )
}

/** Sets how future payments into an account are divided. */
export function SetSplit({ account }: { readonly account: Account }) {
  const { id, businessId, reference, split } = account
  return (
    <Action
      method={AccountService.method.setAccountSplit}
      label="Set split"
      target={id}
      says="Divides the payments that are recorded from now on. The shares are taken in this order, and the business keeps the rest. Without rows it keeps everything."
      request={(form, read) => ({
        businessId,
        reference,
        split: {
          recipients: readRecipients(form),
          feeBearer: read.split?.feeBearer ?? FeeBearer.OWNER,
        },
      })}
    >
      <SplitFields split={split} />
    </Action>
  )
}

const RECIPIENTS_MAX = 5

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
      <Fields
        of={SetAccountSplitRequestSchema}
        show={{ 'split.feeBearer': '' }}
        values={{ split: split ?? {} }}
      />
    </>
  )
}

function readRecipients(form: FormValues): MessageInitShape<typeof SplitRecipientSchema>[] {
  return Array.from({ length: RECIPIENTS_MAX }, (_, index) => ({
    businessId: form.text(`split.recipients[${index}].businessId`),
    ...readShare(form.text(`split.recipients[${index}].basisPoints`)),
  })).filter(({ businessId }) => businessId !== '')
}

/** A share in the format of commands and of the form: `12.5%` or `500.00`. */
export function shareText({ basisPoints, amountMinor }: Split['recipients'][number]): string {
  return basisPoints > 0 ? `${basisPoints / 100}%` : naira(amountMinor).slice(1)
}

/** Reads `12.5%` or an amount of naira; undefined: the text is neither. */
function readShare(text: string): { basisPoints: number } | { amountMinor: bigint } | undefined {
  const percent = /^(\d{1,3})(?:\.(\d{1,2}))?\s*%$/.exec(text)
  if (percent) {
    const basisPoints = Number(percent[1]) * 100 + Number((percent[2] ?? '').padEnd(2, '0'))
    return basisPoints <= 10_000 && basisPoints > 0 ? { basisPoints } : undefined
  }
  const amountMinor = parseNaira(text)
  return amountMinor ? { amountMinor } : undefined
}
