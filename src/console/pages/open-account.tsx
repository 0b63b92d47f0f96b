import { useState } from 'react'
import { AccountService } from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { parseNaira } from '../format/money.ts'
import { useViewScope } from '../session/view-scope.tsx'
import { Action } from '../ui/action.tsx'
import { AreaField, BusinessField, CheckField, SelectField, TextField } from '../ui/form.tsx'
import { PageLink } from '../ui/values.tsx'
import { readAccount } from './account-request.ts'
import { pathOfAccount } from './account-table.tsx'
import { BANKS } from './account-words.ts'

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
      request={(_reason, form) => readAccount(form, live)}
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
      <Bank />
      <Customer />
      <Terms />
    </Action>
  )
}

/** The bank, and the fields that it wants. */
function Bank() {
  const [bank, setBank] = useState('9PSB')
  return (
    <>
      <div className="fields">
        <SelectField name="bank" label="Bank" choices={BANKS} onChoose={setBank} />
        <TextField
          name="reference"
          label="The business's own reference"
          required
          maxLength={100}
          placeholder="order-1"
        />
      </div>
      {bank === 'PALMPAY' && <Identity />}
      {bank === 'SAFEHAVEN' && <Verification />}
    </>
  )
}

const ID_TYPES = [
  { value: 'bvn', label: 'Bank verification number' },
  { value: 'nin', label: 'National identity number' },
]

/** PalmPay checks the customer's identity. */
function Identity({ isOptional = false }: { readonly isOptional?: boolean }) {
  const none = { value: '', label: 'None' }
  return (
    <div className="fields">
      <SelectField
        name="idType"
        label="Identity"
        choices={isOptional ? [none, ...ID_TYPES] : ID_TYPES}
      />
      <TextField
        name="idNumber"
        label="Identity number"
        required={!isOptional}
        pattern="[0-9]{11}"
        maxLength={11}
      />
    </div>
  )
}

/** Safe Haven opens permanent accounts for verified customers. */
function Verification() {
  return (
    <>
      <div className="fields">
        <TextField name="identityId" label="Id of the verification" maxLength={64} />
        <TextField
          name="otp"
          label="Code sent to the customer"
          pattern="[0-9]{4,10}"
          maxLength={10}
          hint="With it, the identity number too."
        />
      </div>
      <Identity isOptional />
    </>
  )
}

function Customer() {
  return (
    <div className="fields">
      <TextField name="firstName" label="First name" required maxLength={100} />
      <TextField name="lastName" label="Last name" required maxLength={100} />
      <TextField name="email" label="E-mail" type="email" required maxLength={254} />
      <TextField
        name="phone"
        label="Phone"
        type="tel"
        required
        maxLength={20}
        placeholder="08012345678"
      />
    </div>
  )
}

const RULES = [
  { value: 'exact', label: 'Exactly' },
  { value: 'atLeast', label: 'At least' },
  { value: 'atMost', label: 'At most' },
  { value: 'any', label: 'Any amount' },
]

function Terms() {
  return (
    <details>
      <summary>One-time terms, and metadata</summary>
      <p className="hint">
        With any of these terms it is a one-time account: a payment that differs is held, and it
        closes by itself.
      </p>
      <div className="fields">
        <TextField
          name="amountMinor"
          label="Expected amount, in naira"
          placeholder="5,000.50"
          check={(text) => (parseNaira(text) ? undefined : 'An amount such as 5,000.50')}
        />
        <SelectField name="amountRule" label="A payment has" choices={RULES} />
        <TextField name="expiresAt" label="Expires" type="datetime-local" />
        <CheckField name="singleUse" label="For a single payment" />
      </div>
      <AreaField
        name="allowedPayers"
        label="Who may pay"
        rows={2}
        placeholder={'0123456789 000013\nAda Obi'}
        hint="One a line: an account number with or without the code of its bank, or a name."
      />
      <AreaField
        name="metadata"
        label="Metadata"
        rows={2}
        placeholder="invoice=7"
        hint="One a line: key=value."
      />
    </details>
  )
}
