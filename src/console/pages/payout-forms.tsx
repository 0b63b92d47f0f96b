import { useQuery } from '@connectrpc/connect-query'
import { type FormEvent, useState } from 'react'
import {
  type Beneficiary,
  type Payout,
  PayoutStatus,
} from '../../../gen/inflow/payout/v1/payout_pb.ts'
import {
  CreatePayoutRequestSchema,
  PayoutService,
} from '../../../gen/inflow/payout/v1/payout_service_pb.ts'
import { SettlementService } from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { amountInWords } from '../../core/money.ts'
import { naira } from '../format/money.ts'
import { useBusinessName } from '../session/business-names.ts'
import { useAllowedQuery } from '../session/session.tsx'
import { useViewScope } from '../session/view-scope.tsx'
import { Action } from '../ui/action.tsx'
import { SelectField, TextField } from '../ui/fields.tsx'
import { BusinessField, Fields } from '../ui/form.tsx'
import { failureOf } from '../ui/page.tsx'
import { PageLink, Status } from '../ui/values.tsx'

const METHODS = PayoutService.method

/** Requests a payout in two steps: a form that resolves the name of the account, and a confirmation of the amount in words. */
export function RequestPayout() {
  const { live } = useViewScope()
  // Kept until a call succeeds, so that repeating a call that got no response pays only once.
  const [reference, setReference] = useState(newReference)
  return (
    <Action
      method={METHODS.createPayout}
      label="Request payout"
      kind="primary"
      icon="plus"
      target={({ payout }) => payout?.id ?? ''}
      says="Pays an account at any bank out of the available balance of a business."
      request={(_form, { reference: own }) => ({ reference: own || reference, live })}
      confirm={({ businessId = '', amountMinor = 0n, beneficiary }) => (
        <ConfirmPayout
          businessId={businessId}
          amountMinor={amountMinor}
          beneficiary={beneficiary as Beneficiary}
        />
      )}
      result={({ payout }) => payout && <Requested payout={payout} />}
      onDone={() => setReference(newReference())}
    >
      <PayoutFields />
    </Action>
  )
}

const newReference = () => `console-${crypto.randomUUID()}`

function PayoutFields() {
  const scope = useViewScope()
  const [typed, setTyped] = useState('')
  const businessId = scope.businessId || typed
  const onInput = ({ target }: FormEvent) => {
    const { name, value } = target as HTMLInputElement
    if (name === 'businessId') setTyped(value.trim())
  }
  const saved = useSaved(businessId)
  const [chosen, setChosen] = useState('')
  return (
    <>
      <div onInput={onInput}>
        <BusinessField />
      </div>
      {saved.length > 0 && (
        <SelectField
          name="saved"
          label="A beneficiary paid before"
          choices={[{ value: '', label: 'Another account' }, ...saved.map(choiceOf)]}
          onChoose={setChosen}
        />
      )}
      <BeneficiaryFields
        key={chosen}
        path="beneficiary"
        businessId={businessId}
        resolution="resolution"
        values={saved.find((each) => keyOf(each) === chosen)}
      />
      <Fields
        of={CreatePayoutRequestSchema}
        show={{ amountMinor: { label: 'Amount, ₦', required: true, placeholder: '5,000.00' } }}
      />
      <Available businessId={businessId} />
      <Fields
        of={CreatePayoutRequestSchema}
        show={[
          {
            narration: { hint: 'Empty: the name of the business.' },
            reference: { required: false, hint: 'Empty: a reference is generated.' },
          },
        ]}
      />
    </>
  )
}

/** The most saved beneficiaries that are offered, the last used first. */
const SAVED_MAX = 50

function useSaved(businessId: string): readonly Beneficiary[] {
  const { live } = useViewScope()
  const isKnown = BUSINESS_ID.test(businessId)
  const request = { businessId, live, pageSize: SAVED_MAX }
  const { data } = useAllowedQuery(METHODS.listBeneficiaries, request, isKnown)
  return data?.beneficiaries.flatMap(({ beneficiary }) => beneficiary ?? []) ?? []
}

const keyOf = ({ bankCode, accountNumber }: Beneficiary) => `${bankCode} ${accountNumber}`

const choiceOf = (saved: Beneficiary) => ({
  value: keyOf(saved),
  label: `${saved.accountName} · ${saved.accountNumber} · ${saved.bankName}`,
})

/** The available balance of the business, which has to cover fees and duty as well. */
function Available({ businessId }: { readonly businessId: string }) {
  const { live } = useViewScope()
  const isKnown = BUSINESS_ID.test(businessId)
  const request = { businessId: isKnown ? businessId : '', test: !live }
  const { data } = useAllowedQuery(SettlementService.method.getBalance, request, isKnown)
  if (!data?.balance) return null
  return <p className="hint">{naira(data.balance.availableMinor)} are available.</p>
}

const BUSINESS_ID = /^biz_\w{20,}$/

interface BeneficiaryFieldsProps {
  /** The path of the beneficiary in the request's JSON. */
  readonly path: string
  /**
   * The business for whose payouts the name is resolved; empty while it is not known yet. Undefined: the payout belongs to no
   * business, and the name is typed.
   */
  readonly businessId: string | undefined
  readonly values?: Pick<Beneficiary, 'bankCode' | 'accountNumber'> | undefined
  /** The request field for the resolution of the name, if the request has one. */
  readonly resolution?: string
}

/**
 * The fields of an account at any bank. The name is resolved as soon as bank and number are known; without a name the form
 * cannot be sent. The service compares a typed name with the name that the bank states.
 */
export function BeneficiaryFields({
  path,
  businessId,
  values,
  resolution,
}: BeneficiaryFieldsProps) {
  const { data } = useQuery(METHODS.listBanks, {}, { staleTime: Number.POSITIVE_INFINITY })
  const banks = data?.banks ?? []
  const [typed, setTyped] = useState<string>()
  const [accountNumber, setNumber] = useState(values?.accountNumber ?? '')
  const before = banks.find(({ code }) => code === values?.bankCode)?.name ?? ''
  const text = (typed ?? before).toLowerCase()
  const bank = banks.find(({ name, code }) => name.toLowerCase() === text || code === text)
  const isTyped = businessId === undefined
  const resolved = useResolvedName(businessId ?? '', bank?.code ?? '', accountNumber)
  const onInput = ({ target }: FormEvent) => {
    const { name, value } = target as HTMLInputElement
    if (name === `${path}.bank`) setTyped(value.trim())
    if (name === `${path}.accountNumber`) setNumber(value.trim())
  }
  const beneficiary = resolved.data?.beneficiary
  return (
    <div className="beneficiary" onInput={onInput}>
      <TextField
        key={before}
        name={`${path}.bank`}
        label="Bank"
        value={before}
        placeholder="Its name"
        required
        list={`${path}-banks`}
        fault={bank || text === '' ? '' : 'Choose a bank from the list'}
      />
      <datalist id={`${path}-banks`}>
        {banks.map(({ code, name }) => (
          <option key={code} value={name} />
        ))}
      </datalist>
      <TextField
        name={`${path}.accountNumber`}
        label="Account number"
        value={values?.accountNumber ?? ''}
        required
        pattern="[0-9]{10}"
        maxLength={10}
        placeholder="Ten digits"
        fault={isTyped ? '' : resolved.fault}
      />
      {isTyped ? (
        <TextField name={`${path}.accountName`} label="Name of the account" required />
      ) : (
        <>
          <p className="resolved" role="status">
            {beneficiary && <Status tone="good">{beneficiary.accountName}</Status>}
            {resolved.isAsking && (
              <span className="faint">Asking for the name of the account…</span>
            )}
            {resolved.error && <span className="fault">{resolved.fault}</span>}
          </p>
          <input
            type="hidden"
            name={`${path}.accountName`}
            value={beneficiary?.accountName ?? ''}
          />
        </>
      )}
      <input type="hidden" name={`${path}.bankCode`} value={bank?.code ?? ''} />
      <input type="hidden" name={`${path}.bankName`} value={bank?.name ?? ''} />
      {resolution && (
        <input type="hidden" name={resolution} value={resolved.data?.resolution ?? ''} />
      )}
    </div>
  )
}

/** How long a resolved name is reused. It is less than the 15 minutes for which a resolution is valid. */
const FRESH_MS = 10 * 60_000

function useResolvedName(businessId: string, bankCode: string, accountNumber: string) {
  const { live } = useViewScope()
  const enabled = BUSINESS_ID.test(businessId) && bankCode !== '' && /^\d{10}$/.test(accountNumber)
  const { data, error, isFetching } = useQuery(
    METHODS.resolveAccountName,
    { businessId, bankCode, accountNumber, live },
    { enabled, retry: false, staleTime: FRESH_MS },
  )
  const isAsking = isFetching && data === undefined
  return { data, error, isAsking, fault: faultOf(error, enabled && data === undefined) }
}

/** Why the name keeps the form from being sent; empty: it does not. */
function faultOf(error: unknown, isMissing: boolean): string {
  if (error === null) return isMissing ? 'The name of the account is not known yet' : ''
  const { text, fields } = failureOf(error)
  const [first] = fields
  if (first === undefined) return text
  const subject = first.field === 'accountNumber' ? 'The account number' : 'The bank'
  return `${subject} ${first.description}`
}

function ConfirmPayout({
  businessId,
  amountMinor,
  beneficiary,
}: {
  readonly businessId: string
  readonly amountMinor: bigint
  readonly beneficiary: Beneficiary
}) {
  const { live } = useViewScope()
  const name = useBusinessName(businessId)
  return (
    <>
      <AmountTo amountMinor={amountMinor} {...beneficiary} />
      <p>
        Out of the available balance of {name} in {live ? 'live' : 'test'} mode. Its fee and duty
        are reserved with it. A bank cannot call back what it has paid.
      </p>
    </>
  )
}

/** The amount in figures and words, the name and the account, to be read once more before a payment. */
export function AmountTo({
  amountMinor,
  accountName,
  accountNumber,
  bankName,
}: Pick<Beneficiary, 'accountName' | 'accountNumber' | 'bankName'> & {
  readonly amountMinor: bigint
}) {
  return (
    <div className="amount-to">
      <strong className="money">{naira(amountMinor)}</strong>
      <span>{amountInWords(amountMinor)}</span>
      <span>
        to <strong>{accountName}</strong>
      </span>
      <span>
        <code>{accountNumber}</code> at {bankName}
      </span>
    </div>
  )
}

/** The result of a request, with a link to the payout. */
export function Requested({ payout }: { readonly payout: Payout }) {
  const { id, status, approvalReason, feeMinor, dutyMinor } = payout
  const isPending = status === PayoutStatus.PENDING_APPROVAL
  return (
    <>
      <p>
        <PageLink to={`/payouts/${id}`}>{isPending ? 'It awaits approval' : 'Requested'}</PageLink>
        {isPending && ` by another person: ${approvalReason}`}.
        {!isPending && ' It is sent as soon as a bank can pay it.'}
      </p>
      {feeMinor + dutyMinor > 0n && (
        <p>
          Fee {naira(feeMinor)}, duty {naira(dutyMinor)}.
        </p>
      )}
    </>
  )
}
