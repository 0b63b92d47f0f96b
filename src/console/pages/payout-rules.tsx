import { create } from '@bufbuild/protobuf'
import { useQuery } from '@connectrpc/connect-query'
import { useState } from 'react'
import {
  type PayoutFeeBand,
  PayoutFeeBandSchema,
  type PayoutPolicy,
  SavedBeneficiarySchema,
} from '../../../gen/inflow/payout/v1/payout_pb.ts'
import {
  PayoutService,
  UpdatePayoutPolicyRequestSchema,
} from '../../../gen/inflow/payout/v1/payout_service_pb.ts'
import { formatAmount } from '../../core/money.ts'
import { naira, parseNaira } from '../format/money.ts'
import { useOnlyBusiness } from '../session/session.tsx'
import { useViewScope } from '../session/view-scope.tsx'
import { Action } from '../ui/action.tsx'
import { Button } from '../ui/button.tsx'
import { columnsOf } from '../ui/columns.tsx'
import { TextField, Tick } from '../ui/fields.tsx'
import { type FieldSpecs, Fields, type FormValues } from '../ui/form.tsx'
import { List, usePagedList } from '../ui/list.tsx'
import { Empty, type Fact, Facts, Loaded, Page, Section } from '../ui/page.tsx'
import { BeneficiaryFields } from './payout-forms.tsx'

const METHODS = PayoutService.method

interface RulesProps {
  /** Empty: the installation. */
  readonly businessId: string
  readonly title: string
}

/** The limits, approvals and fees of payouts. */
export function PayoutRules({ businessId, title }: RulesProps) {
  const read = useQuery(METHODS.getPayoutPolicy, { businessId })
  const { policy } = read.data ?? {}
  return (
    <Section title={title} actions={policy && <Edit businessId={businessId} policy={policy} />}>
      <Loaded read={read} rows={4}>
        {() => policy && <Facts facts={factsOf(policy)} />}
      </Loaded>
    </Section>
  )
}

/** The rules and beneficiaries of the only business that the caller may see. */
export function PayoutRulesPage() {
  const businessId = useOnlyBusiness()
  if (businessId === undefined) {
    return <Empty title="Each business has rules of its own">See the page of the business.</Empty>
  }
  return (
    <Page title="Payout rules">
      <p className="soft">The limits of the service apply in addition to these rules.</p>
      <PayoutRules businessId={businessId} title="Limits, approval and fees" />
      <Beneficiaries businessId={businessId} />
    </Page>
  )
}

const limitText = (minor: bigint) => (minor === 0n ? 'no limit' : `at most ${naira(minor)}`)

function factsOf(policy: PayoutPolicy): readonly Fact[] {
  const { approvalAboveMinor, coolDownHours, approvalHours, settleTo, floorMinor } = policy
  const isOfBusiness = policy.businessId !== ''
  return [
    ['A payout', limitText(policy.payoutMaxMinor)],
    ['A day', limitText(policy.dailyMaxMinor)],
    ['A month', limitText(policy.monthlyMaxMinor)],
    ['Approval', approvalText(approvalAboveMinor)],
    [
      'New beneficiary',
      coolDownHours === 0
        ? 'as others'
        : `needs an approval above ${naira(policy.newBeneficiaryMaxMinor)} for ${coolDownHours} h`,
    ],
    ['Time to approve', `${approvalHours} h at most`],
    ['Fee', isOfBusiness && feesText(policy.fees)],
    ['Stamp duty', isOfBusiness && (policy.chargeDuty ? 'charged' : 'not charged')],
    [
      'Settlements',
      isOfBusiness &&
        (settleTo
          ? `paid out to ${settleTo.accountName}, ${settleTo.accountNumber}`
          : 'stay available'),
    ],
    ['Floor', settleTo !== undefined && floorMinor > 0n && naira(floorMinor)],
  ]
}

function approvalText(aboveMinor: bigint | undefined): string {
  if (aboveMinor === undefined) return 'not needed'
  return aboveMinor === 0n ? 'always needed' : `needed above ${naira(aboveMinor)}`
}

function feesText(fees: readonly PayoutFeeBand[]): string {
  return fees.map(feeText).join('; ') || 'none'
}

function feeText({ upToMinor, flatMinor, basisPoints, capMinor }: PayoutFeeBand): string {
  const parts = [flatMinor > 0n && naira(flatMinor), basisPoints > 0 && `${basisPoints / 100} %`]
  const fee = parts.filter(Boolean).join(' and ') || 'free'
  const cap = capMinor === 0n ? '' : `, at most ${naira(capMinor)}`
  return upToMinor === 0n ? `${fee}${cap}` : `${fee}${cap} up to ${naira(upToMinor)}`
}

interface EditProps {
  readonly businessId: string
  readonly policy: PayoutPolicy
}

function Edit({ businessId, policy }: EditProps) {
  return (
    <Action
      method={METHODS.updatePayoutPolicy}
      label="Change the rules"
      says="They apply in both modes, to payouts that are requested from now on. The limits of the installation apply in addition to the limits of each business."
      request={(form, { policy: read }) => ({
        policy: { ...readRules(form, policy, read), businessId },
      })}
      target={businessId || 'installation'}
    >
      <RuleFields businessId={businessId} policy={policy} />
    </Action>
  )
}

/** The rules of the form. The descriptor describes all but three: the optional amount, the optional account, and the fees. */
function readRules(form: FormValues, before: PayoutPolicy, read: PayoutPolicy | undefined) {
  const {
    $typeName: _,
    $unknown: _none,
    approvalAboveMinor: _above,
    settleTo: _to,
    ...rules
  } = {
    ...before,
    ...read,
  }
  const above = parseNaira(form.text('above'))
  const keeps = form.text('keepsSettleTo') !== '' ? before.settleTo : undefined
  const settleTo = read?.settleTo ?? keeps
  return {
    ...rules,
    fees: readFees(form),
    ...(above !== undefined && { approvalAboveMinor: above }),
    ...(settleTo && { settleTo }),
  }
}

function RuleFields({ businessId, policy }: EditProps) {
  const { approvalAboveMinor } = policy
  const isOfBusiness = businessId !== ''
  return (
    <>
      <PolicyFields
        policy={policy}
        show={[
          {
            'policy.payoutMaxMinor': { hint: NO_LIMIT },
            'policy.dailyMaxMinor': { hint: NO_LIMIT },
            'policy.monthlyMaxMinor': { hint: NO_LIMIT },
          },
        ]}
      />
      <div className="fields">
        <TextField
          name="above"
          label="An approval is needed above, ₦"
          hint="Empty: never. 0: always."
          value={approvalAboveMinor === undefined ? '' : formatAmount(approvalAboveMinor)}
          check={(text) =>
            parseNaira(text) === undefined ? 'An amount, such as 5,000' : undefined
          }
        />
        <PolicyFields policy={policy} show={{ 'policy.approvalHours': { min: 1 } }} />
      </div>
      <PolicyFields
        policy={policy}
        show={[
          {
            'policy.coolDownHours': { hint: '0: no beneficiary counts as new' },
            'policy.newBeneficiaryMaxMinor': { hint: 'Empty: none' },
          },
        ]}
      />
      {isOfBusiness && <FeeFields fees={policy.fees} />}
      {isOfBusiness && <PolicyFields policy={policy} show={{ 'policy.chargeDuty': '' }} />}
      {isOfBusiness && <SettleToFields businessId={businessId} policy={policy} />}
    </>
  )
}

/** Fields of the form, by their paths in the request. */
const PolicyFields = ({ policy, show }: { policy: object; show: FieldSpecs }) => (
  <Fields of={UpdatePayoutPolicyRequestSchema} values={{ policy }} show={show} />
)

const NO_LIMIT = 'Empty: no limit'

/** The columns of a fee band, as they are typed. */
const BAND = [
  ['upTo', 'Amounts up to, ₦'],
  ['flat', 'Flat, ₦'],
  ['percent', 'Percent'],
  ['cap', 'At most, ₦'],
] as const

const BANDS_MAX = 10

function FeeFields({ fees }: Pick<PayoutPolicy, 'fees'>) {
  const [count, setCount] = useState(fees.length)
  const textOf = (minor: bigint) => (minor === 0n ? '' : formatAmount(minor))
  return (
    <fieldset className="fees">
      <legend>Fees, by the amount</legend>
      {Array.from({ length: count }, (_, index) => {
        const { upToMinor, flatMinor, basisPoints, capMinor } =
          fees[index] ?? create(PayoutFeeBandSchema)
        const values = {
          upTo: textOf(upToMinor),
          flat: textOf(flatMinor),
          percent: basisPoints === 0 ? '' : `${basisPoints / 100}`,
          cap: textOf(capMinor),
        }
        return (
          // biome-ignore lint/suspicious/noArrayIndexKey: bands are only added and removed at the end
          <div key={index} className="fee-band">
            {BAND.map(([name, label]) => (
              <TextField
                key={name}
                name={`fee${index}.${name}`}
                label={label}
                value={values[name]}
                pattern={name === 'percent' ? '\\d{1,3}([.]\\d{1,2})?' : '[\\d,]+([.]\\d{1,2})?'}
                {...(name === 'upTo' && { placeholder: 'any' })}
              />
            ))}
          </div>
        )
      })}
      <div className="row-actions">
        <Button icon="plus" disabled={count === BANDS_MAX} onClick={() => setCount(count + 1)}>
          Add a band
        </Button>
        {count > 0 && <Button onClick={() => setCount(count - 1)}>Remove the last</Button>}
      </div>
    </fieldset>
  )
}

/** The fee bands of the form. Empty bands are left out. */
function readFees(form: FormValues) {
  return Array.from({ length: BANDS_MAX }, (_, index) => {
    const [upTo = '', flat = '', percent = '', cap = ''] = BAND.map(([name]) =>
      form.text(`fee${index}.${name}`),
    )
    return {
      isTyped: upTo + flat + percent + cap !== '',
      upToMinor: parseNaira(upTo) ?? 0n,
      flatMinor: parseNaira(flat) ?? 0n,
      basisPoints: Math.round(Number(percent) * 100),
      capMinor: parseNaira(cap) ?? 0n,
    }
  }).flatMap(({ isTyped, ...band }) => (isTyped ? [band] : []))
}

/** The account to which settlements are paid out: none, the current account, or another account. */
function SettleToFields({ businessId, policy: { settleTo, ...policy } }: EditProps) {
  const [isPaidOut, setPaidOut] = useState(settleTo !== undefined)
  const [isChanged, setChanged] = useState(settleTo === undefined)
  return (
    <>
      <Tick isOn={isPaidOut} onChange={setPaidOut} label="Pay settlements out" />
      {isPaidOut && settleTo && !isChanged && (
        <>
          <input type="hidden" name="keepsSettleTo" value="yes" />
          <p>
            To {settleTo.accountName}, <code>{settleTo.accountNumber}</code>{' '}
            <Button onClick={() => setChanged(true)}>Another account</Button>
          </p>
        </>
      )}
      {isPaidOut && isChanged && (
        <BeneficiaryFields path="policy.settleTo" businessId={businessId} />
      )}
      {isPaidOut && (
        <PolicyFields policy={policy} show={{ 'policy.floorMinor': { hint: 'Empty: nothing' } }} />
      )}
    </>
  )
}

const BENEFICIARY_COLUMNS = columnsOf(SavedBeneficiarySchema, [
  ['Name', ({ beneficiary }) => beneficiary?.accountName],
  ['Account', ({ beneficiary }) => <code>{beneficiary?.accountNumber}</code>],
  ['Bank', ({ beneficiary }) => beneficiary?.bankName],
  ['First paid', 'firstUsedAt'],
  ['Last paid', 'lastUsedAt'],
])

/** The beneficiaries of a business in the shown mode, the last used first. */
export function Beneficiaries({ businessId }: { readonly businessId: string }) {
  const { live } = useViewScope()
  const request = { businessId, live, pageSize: 20 }
  const list = usePagedList(METHODS.listBeneficiaries, 'beneficiaries', request)
  return (
    <Section title="Beneficiaries">
      <List
        label="Beneficiaries"
        columns={BENEFICIARY_COLUMNS}
        of={list}
        keyOf={({ beneficiary }) => `${beneficiary?.bankCode} ${beneficiary?.accountNumber}`}
        empty={<p className="soft">No beneficiaries in {live ? 'live' : 'test'} mode yet.</p>}
      />
    </Section>
  )
}
