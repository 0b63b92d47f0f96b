import { readFileSync } from 'node:fs'
import { create, fromJsonString } from '@bufbuild/protobuf'
import { Code, ConnectError } from '@connectrpc/connect'
import { type Command, InvalidArgumentError } from 'commander'
import { OverviewService } from '../../gen/inflow/overview/v1/overview_service_pb.ts'
import {
  type Beneficiary,
  PauseScope,
  type Payout,
  type PayoutFeeBand,
  type PayoutPolicy,
  PayoutPolicySchema,
  PayoutPurpose,
  PayoutSchema,
  PayoutStatus,
  PayoutStepSchema,
} from '../../gen/inflow/payout/v1/payout_pb.ts'
import {
  CreatePayoutResponseSchema,
  PayoutDecision,
  PayoutService,
  UpdatePayoutPolicyRequestSchema,
  UpdatePayoutPolicyResponseSchema,
} from '../../gen/inflow/payout/v1/payout_service_pb.ts'
import { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import type { Payer, Transaction } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import type { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { formatAmount } from '../core/money.ts'
import { columnsOf } from './columns.ts'
import { confirm, YES, type YesOption } from './confirm.ts'
import { amount, numberFrom } from './options.ts'
import { EXIT, Failure, fields, note, table, visible } from './output.ts'
import { addBatchVerbs } from './payout-batches.ts'
import { addDiscrepancyVerbs } from './reconcile-payouts.ts'
import { BUSINESS, MODE, PAGE, rpc } from './rpc-verb.ts'
import { pagesOf, printResponse, type Service, serviceAction } from './service-action.ts'
import { addVerbs, calling } from './verb.ts'

const ROW = `createdAt, reference, amountMinor, status, bank=Sent through, live, beneficiary.accountName=Beneficiary,
  beneficiary.accountNumber=Account, beneficiary.bankName=Institution, businessId, id`

const PAYOUT = `id, businessId, live, reference, purpose, status, amountMinor, feeMinor?, dutyMinor?, currency,
  beneficiary.accountName=Beneficiary, beneficiary.accountNumber=Account, beneficiary.bankName=Institution,
  narration, bank=Sent through, bankReference, routing, sessionId, failureReason, detail, requestedBy,
  approvalReason=Needs approval, decidedBy, decisionNote, createdAt, expiresAt, nextAt, submittedAt, completedAt,
  transactionId=Refunds, unmatchedPaymentId=Returns, settlementId, batchId`

const STEPS = columnsOf(PayoutStepSchema, 'at, status, actor, text=What')

const PAYOUT_ID = '<payout-id>  the payout id, pay_…'
const NOTE = '--note <text>  why'
const INSTITUTION = '--bank <code>'
const INSTITUTION_ABOUT =
  'the institution: its six-digit NIP code, or the three-digit code of a commercial bank; see payout banks'
const WHAT_TO_PAUSE = `--all  all payouts
  --bank <code>  payouts through this bank
  --business <id>  payouts of this business, in both modes`
const FILTERS = `--business <id>  only of this business (default: all)
  ${MODE}
  --status <status...>  only with these statuses
  --transaction <id>  only refunds of this payment
  --account <number>  only to this account number
  --from <time>  requested at this time or later
  --to <time>  requested before this time`

const PAYOUT_HELP = `
  create: request a payout: the bank states the name of the account, and you confirm it
  ${BUSINESS}
  --reference <text>!  your own reference; a repeat with the same details shows the same payout
  --amount <naira>!  the amount that the beneficiary gets
  ${INSTITUTION}!  ${INSTITUTION_ABOUT}
  --account <number>!  the account number, ten digits
  --name <text>  the name that you expect; the bank must state a name like it (default: the name that the bank states)
  --narration <text>  what the beneficiary's statement shows (default: the name of the business)
  --test  in test mode (default: live mode)
  ${YES}
  Example: payout create --reference rent-11 --amount 150000 --bank 058 --account 0123456785

  get: show a payout with its history
  [payout-id]  the payout id, pay_…
  --reference <text>  the business's own reference, in place of the id
  --business <id>  with --reference: the business (default: the demo business of a local service)
  --test  with --reference: in test mode (default: live mode)
  Example: payout get --reference rent-11

  list: list payouts, newest first
  ${FILTERS}
  --purpose <purpose>  only for this purpose
  --batch <id>  only of this batch
  ${PAGE}
  Example: payout list --status UNKNOWN MANUAL_REVIEW

  approve: approve a payout that another person requested
  ${PAYOUT_ID}
  ${NOTE}
  ${YES}
  Example: payout approve pay_… --note "invoice 1042"

  reject: reject a payout that awaits approval: its money is available again
  ${PAYOUT_ID}
  ${NOTE}
  ${YES}
  Example: payout reject pay_… --note "unknown supplier"

  cancel: cancel a payout that was not sent to a bank: its money is available again
  ${PAYOUT_ID}
  ${NOTE}
  ${YES}
  Example: payout cancel pay_… --note "paid in cash"

  resolve: decide a payout whose result the bank has not stated, after you looked at the bank's books
  ${PAYOUT_ID}
  --decision <decision>!  what to do
  --note <text>!  how you know
  --session <text>  with MARK_PAID: the interbank session id
  ${YES}
  Example: payout resolve pay_… --decision MARK_PAID --note "in the bank's statement of 20 November"

  resolve-name: ask a bank for the name of an account
  ${BUSINESS}
  ${INSTITUTION}!  ${INSTITUTION_ABOUT}
  --account <number>!  the account number, ten digits
  --test  in test mode (default: live mode)
  Example: payout resolve-name --bank 058 --account 0123456785

  banks: list the institutions that payouts can reach
  Example: payout banks

  beneficiaries: list the beneficiaries of a business, the last used first
  ${BUSINESS}
  --test  in test mode (default: live mode)
  ${PAGE}
  Example: payout beneficiaries --limit 20

  pause: stop payouts at once, at every instance; payouts that are already being sent are not stopped
  ${WHAT_TO_PAUSE}
  --reason <text>!  why
  Example: payout pause --all --reason "a key was stolen"

  resume: send payouts again
  ${WHAT_TO_PAUSE}
  --reason <text>  why
  Example: payout resume --all --reason "the key is revoked"

  pauses: list pauses, newest first
  --business <id>  only pauses that affect this business (default: all)
  ${PAGE}
  Example: payout pauses

  float: show the balances of the operator's accounts at the banks, and the sums that are being paid from them
  --test  in test mode (default: live mode)
  Example: payout float`

const POLICY_HELP = `
  get: show the rules of payouts; with --json in the form that policy set --file takes
  --business <id>  the rules of this business (default: those of the installation)
  Example: payout policy get --business biz_…

  set: change the rules of payouts: the rules that you give as flags, or all rules with --file
  --business <id>  the rules of this business (default: those of the installation)
  --payout-max <naira>  the largest payout; 0: no limit
  --daily-max <naira>  the largest sum of a day in Lagos; 0: no limit
  --monthly-max <naira>  the largest sum of a month in Lagos; 0: no limit
  --approval-above <naira>  larger payouts need the approval of a second person; none: no payout needs it
  --cool-down-hours <hours>  how long a beneficiary is new, 0 to 720
  --new-beneficiary-max <naira>  the largest sum that a new beneficiary gets without an approval
  --approval-hours <hours>  how long an approval may take, 1 to 720
  --floor <naira>  the amount that stays available when a settlement is paid out
  --duty <choice>  whether the business pays stamp duty: on, off
  --file <path>  all rules as JSON, including the fees and the account for settlements
  Example: payout policy set --business biz_… --approval-above 500000 --daily-max 5000000`

export function payout(noun: Command): void {
  const paused = { business: { conflicts: ['all', 'bank'] }, bank: { conflicts: 'all' } }
  addVerbs(noun, PAYOUT_HELP, {
    create: calling(createPayout, { amount: { read: amount } }),
    get: rpc(PayoutService.method.getPayout, {
      request: ({ reference, business }: { reference?: string; business?: string }, service) =>
        reference === undefined ? {} : { businessId: service.business(business) },
      shows: ({ payout: found, steps }) =>
        `${payoutText(found)}\n\n${table(steps, STEPS.list)}`.trim(),
    }),
    list: rpc(PayoutService.method.listPayouts, { shows: ROW }),
    approve: rpc(PayoutService.method.approvePayout, {
      confirms: confirmPayout('approve', 'It is sent to the bank.'),
      shows: PAYOUT,
    }),
    reject: rpc(PayoutService.method.rejectPayout, {
      confirms: confirmPayout('reject', 'It is not sent. Its money is available again.'),
      shows: PAYOUT,
    }),
    cancel: rpc(PayoutService.method.cancelPayout, {
      confirms: confirmPayout('cancel', 'It is not sent. Its money is available again.'),
      shows: PAYOUT,
    }),
    resolve: rpc(PayoutService.method.resolvePayout, {
      confirms: ({ payoutId, decision }, service) => {
        const effect = EFFECTS[decision]
        return effect && confirmPayout('resolve', effect)({ payoutId }, service)
      },
      shows: PAYOUT,
    }),
    'resolve-name': rpc(PayoutService.method.resolveAccountName, {
      flags: { bank: 'bankCode' },
      shows: 'accountName, accountNumber=Account, bankCode, bankName=Institution',
      also: 'expiresAt, resolution',
    }),
    banks: rpc(PayoutService.method.listBanks, { shows: 'code, name' }),
    beneficiaries: rpc(PayoutService.method.listBeneficiaries, {
      shows: `beneficiary.accountName, beneficiary.accountNumber=Account, beneficiary.bankCode,
        beneficiary.bankName=Institution, firstUsedAt, lastUsedAt`,
    }),
    pause: rpc(PayoutService.method.pausePayouts, {
      flags: paused,
      request: scopeOf,
      shows: PAUSE,
    }),
    resume: rpc(PayoutService.method.resumePayouts, {
      flags: paused,
      request: scopeOf,
      notes: () => 'Payouts that waited are sent now, unless another pause stops them.',
    }),
    pauses: rpc(PayoutService.method.listPauses, { shows: PAUSE }),
    float: rpc(PayoutService.method.getFloat, {
      shows: 'bank, live, availableMinor, inProgressMinor=Being paid, paused, readAt, error',
    }),
  })
  addDiscrepancyVerbs(noun)
  addBatchVerbs(noun)
  addVerbs(
    noun
      .command('policy')
      .description('the rules of payouts: limits, approvals, fees: get, set')
      .helpCommand(false),
    POLICY_HELP,
    {
      get: rpc(PayoutService.method.getPayoutPolicy, { shows: POLICY }),
      set: calling(setPolicy, POLICY_FLAGS),
    },
  )
}

const PAUSE = 'scope, bank, businessId, reason, pausedBy, pausedAt'

const payoutText = (found: Payout | undefined): string =>
  fields(found, columnsOf(PayoutSchema, PAYOUT).list)

/** "ADA OBI, 0123456785, Guaranty Trust Bank" */
const beneficiaryText = ({ accountName, accountNumber, bankName }: Beneficiary): string =>
  [accountName, accountNumber, bankName].filter((text) => text !== '').join(', ')

interface CreateOptions extends YesOption {
  readonly business?: string
  readonly reference: string
  readonly amount: bigint
  readonly bank: string
  readonly account: string
  readonly name?: string
  readonly narration?: string
  readonly test?: boolean
}

/** Resolves the name of the account, asks the operator to confirm it, and requests the payout with that resolution. */
const createPayout = serviceAction<CreateOptions>(async (service, options) => {
  const businessId = service.business(options.business)
  const { reference, narration = '', name = '', amount: amountMinor } = options
  const client = service.client(PayoutService)
  const account = { bankCode: options.bank, accountNumber: options.account }
  const live = options.test !== true
  const { beneficiary, resolution } = await client.resolveAccountName({
    businessId,
    live,
    ...account,
  })
  if (beneficiary) {
    const question = [
      `Pays ${formatAmount(amountMinor)} NGN to ${beneficiaryText(beneficiary)},`,
      `out of the ${live ? 'live' : 'test'} balance of ${businessId}, which pays the fee as well.`,
    ]
    await confirm(options, { word: 'pay', question: visible(question.join(' ')) })
  }
  const response = await client.createPayout({
    businessId,
    live,
    reference,
    amountMinor,
    narration,
    resolution,
    beneficiary: { ...account, accountName: name },
  })
  printResponse(options, CreatePayoutResponseSchema, response, () => payoutText(response.payout))
  if (response.replayed) note('The payout was requested before.')
  noteApproval(response.payout)
})

function noteApproval(requested: Payout | undefined): void {
  if (requested?.status !== PayoutStatus.PENDING_APPROVAL) return
  note(`Another person has to approve it: inflow payout approve ${requested.id}`)
}

/** The effects of the decisions that cannot be undone. ASK_AGAIN is always safe, so it needs no confirmation. */
const EFFECTS: Readonly<Record<number, string>> = {
  [PayoutDecision.MARK_PAID]: 'It is recorded as paid: its money does not come back.',
  [PayoutDecision.MARK_FAILED]:
    'Its money is available again. If the bank paid it after all, that money is lost.',
  [PayoutDecision.RESEND]: 'It is sent to the bank again, under the same reference.',
  [PayoutDecision.MARK_RETURNED]: 'Its amount is available again.',
}

/** Asks for a confirmation before a payout is changed. The question states its amount and its beneficiary. */
const confirmPayout =
  (word: string, effect: string) =>
  ({ payoutId }: { readonly payoutId: string }, service: Service) => ({
    word,
    question: () =>
      questionAbout(payoutId, effect, async () => {
        const { payout: found } = await service.client(PayoutService).getPayout({ payoutId })
        if (!found) return ''
        const { amountMinor, beneficiary, businessId, reference } = found
        const to = beneficiary ? ` to ${beneficiaryText(beneficiary)}` : ''
        return `${formatAmount(amountMinor)} NGN${to}, ${reference} of ${businessId}`
      }),
  })

/** @param describe describes the object; its text is left out if the token may act but not read */
async function questionAbout(
  id: string,
  effect: string,
  describe: () => Promise<string>,
): Promise<string> {
  const text = await describe().catch((error: unknown) => {
    if (error instanceof ConnectError && error.code === Code.PermissionDenied) return ''
    throw error
  })
  return `${visible(text === '' ? id : `${id}: ${text}`)}\n${effect}`
}

interface PauseOptions {
  readonly all?: boolean
  readonly bank?: Bank
  readonly business?: string
}

function scopeOf({ all, bank, business }: PauseOptions): { scope: PauseScope } {
  if (business !== undefined) return { scope: PauseScope.BUSINESS }
  if (bank !== undefined) return { scope: PauseScope.BANK }
  if (all) return { scope: PauseScope.GLOBAL }
  throw new Failure(EXIT.usage, 'one of --all, --bank and --business is required')
}

const POLICY = columnsOf(
  PayoutPolicySchema,
  `businessId, Largest payout, Of a day, Of a month, Approval above, coolDownHours,
  newBeneficiaryMaxMinor=New beneficiary, approvalHours, Fees, chargeDuty=Duty, Settlements to, floorMinor=Floor`,
  {
    'Largest payout': ({ payoutMaxMinor }) => limitText(payoutMaxMinor),
    'Of a day': ({ dailyMaxMinor }) => limitText(dailyMaxMinor),
    'Of a month': ({ monthlyMaxMinor }) => limitText(monthlyMaxMinor),
    'Approval above': ({ approvalAboveMinor }) =>
      approvalAboveMinor === undefined ? 'none' : formatAmount(approvalAboveMinor),
    Fees: ({ fees }) => fees.map(feeText).join('; ') || 'none',
    'Settlements to': ({ settleTo }) => (settleTo ? beneficiaryText(settleTo) : ''),
  },
)

const limitText = (minor: bigint): string => (minor === 0n ? 'no limit' : formatAmount(minor))

/** "up to 5000.00: 10.00 + 1.5 %, at most 50.00" */
function feeText({ upToMinor, flatMinor, basisPoints, capMinor }: PayoutFeeBand): string {
  const parts = [
    ...(flatMinor > 0n || basisPoints === 0 ? [formatAmount(flatMinor)] : []),
    ...(basisPoints > 0 ? [`${basisPoints / 100} %`] : []),
  ]
  const amounts = upToMinor > 0n ? `up to ${formatAmount(upToMinor)}: ` : ''
  const cap = capMinor > 0n ? `, at most ${formatAmount(capMinor)}` : ''
  return `${amounts}${parts.join(' + ')}${cap}`
}

/** Reads a limit in naira; 0 means no limit. */
const limit = (text: string): bigint => (text === '0' ? 0n : amount(text))

const POLICY_FLAGS = {
  payoutMax: { read: limit, conflicts: 'file' },
  dailyMax: { read: limit, conflicts: 'file' },
  monthlyMax: { read: limit, conflicts: 'file' },
  approvalAbove: {
    read: (text: string) => (text === 'none' ? text : limit(text)),
    conflicts: 'file',
  },
  coolDownHours: { read: numberFrom(0, 720), conflicts: 'file' },
  newBeneficiaryMax: { read: limit, conflicts: 'file' },
  approvalHours: { read: numberFrom(1, 720), conflicts: 'file' },
  floor: { read: limit, conflicts: 'file' },
  duty: { choices: ['on', 'off'], conflicts: 'file' },
}

interface PolicyOptions {
  readonly business?: string
  readonly payoutMax?: bigint
  readonly dailyMax?: bigint
  readonly monthlyMax?: bigint
  readonly approvalAbove?: bigint | 'none'
  readonly coolDownHours?: number
  readonly newBeneficiaryMax?: bigint
  readonly approvalHours?: number
  readonly floor?: bigint
  readonly duty?: 'on' | 'off'
  readonly file?: string
}

const setPolicy = serviceAction<PolicyOptions>(async (service, options) => {
  const client = service.client(PayoutService)
  const { business: businessId = '', file } = options
  const policy =
    file === undefined
      ? changed((await client.getPayoutPolicy({ businessId })).policy, options)
      : { ...readPolicy(file), businessId }
  const response = await client.updatePayoutPolicy({ policy })
  printResponse(options, UpdatePayoutPolicyResponseSchema, response, () =>
    fields(response.policy, POLICY.list),
  )
})

/** The current rules, with the changes that the flags state. */
function changed(
  present: PayoutPolicy = create(PayoutPolicySchema),
  options: PolicyOptions,
): PayoutPolicy {
  const { approvalAboveMinor, ...rest } = present
  const { approvalAbove = approvalAboveMinor, duty } = options
  const { coolDownHours, approvalHours } = options
  return {
    ...rest,
    payoutMaxMinor: options.payoutMax ?? present.payoutMaxMinor,
    dailyMaxMinor: options.dailyMax ?? present.dailyMaxMinor,
    monthlyMaxMinor: options.monthlyMax ?? present.monthlyMaxMinor,
    ...(typeof approvalAbove === 'bigint' && { approvalAboveMinor: approvalAbove }),
    coolDownHours: coolDownHours ?? present.coolDownHours,
    newBeneficiaryMaxMinor: options.newBeneficiaryMax ?? present.newBeneficiaryMaxMinor,
    approvalHours: approvalHours ?? present.approvalHours,
    floorMinor: options.floor ?? present.floorMinor,
    chargeDuty: duty === undefined ? present.chargeDuty : duty === 'on',
  }
}

/** Reads rules from a file in the form that `policy get --json` prints. @throws Failure */
function readPolicy(path: string): PayoutPolicy {
  try {
    const text = readFileSync(path, 'utf8')
    const { policy } = fromJsonString(UpdatePayoutPolicyRequestSchema, text)
    if (policy) return policy
    throw new InvalidArgumentError('it has no "policy"')
  } catch (error) {
    const cause = error instanceof Error ? error.message : String(error)
    throw new Failure(EXIT.usage, `--file ${path}: ${cause}`)
  }
}

const REFUND_HELP = `
  create: refund a payment to its payer, as a whole or in part
  <transaction-id>  the transaction id, txn_…
  --amount <naira>  the amount (default: the remaining amount of the payment)
  --reason <text>  why
  --reference <text>  your own reference; a repeat with the same reference refunds nothing more (default: a generated one)
  ${INSTITUTION}  pay to another account than the payer's, which needs an approval: its institution; with --account and --name
  --account <number>  the number of that account
  --name <text>  its expected name
  ${YES}
  Example: refund create txn_… --amount 500 --reason "one item is out of stock"

  unmatched: return an unmatched payment to its payer by a payout, as a whole
  <unmatched-payment-id>  the payment, unm_…
  --reason <text>  why
  ${INSTITUTION}  pay to another account than the payer's, which needs an approval: its institution; with --account and --name
  --account <number>  the number of that account
  --name <text>  its expected name
  ${YES}
  Example: refund unmatched unm_… --reason "the payer mistyped"

  list: list refunds, newest first
  ${FILTERS}
  ${PAGE}
  Example: refund list --transaction txn_…`

export function refund(noun: Command): void {
  addVerbs(noun, REFUND_HELP, {
    create: rpc(PayoutService.method.refundTransaction, {
      request: otherAccount,
      confirms: ({ transactionId, amountMinor, beneficiary }, service) => {
        const sum = amountMinor === 0n ? 'The remaining amount' : `${formatAmount(amountMinor)} NGN`
        const effect = `${sum} is paid to ${recipientText(beneficiary)}.`
        const question = () =>
          questionAbout(transactionId, effect, () => transactionText(service, transactionId))
        return { word: 'refund', question }
      },
      shows: PAYOUT,
      also: 'refundableMinor=Still refundable',
      notes: ({ payout: requested, replayed }) => {
        noteApproval(requested)
        return replayed ? 'The refund was requested before.' : []
      },
    }),
    unmatched: rpc(PayoutService.method.refundUnmatchedPayment, {
      request: otherAccount,
      confirms: ({ unmatchedPaymentId, beneficiary }, service) => {
        const question = () =>
          questionAbout(
            unmatchedPaymentId,
            `All of it is paid to ${recipientText(beneficiary)}.`,
            () => unmatchedText(service, unmatchedPaymentId),
          )
        return { word: 'return', question }
      },
      shows: PAYOUT,
      notes: ({ payout: requested, replayed }) => {
        noteApproval(requested)
        return replayed ? 'The return was requested before.' : []
      },
    }),
    list: rpc(PayoutService.method.listPayouts, {
      request: () => ({ purpose: PayoutPurpose.REFUND }),
      shows: `${ROW}, transactionId=Refunds, unmatchedPaymentId=Returns`,
    }),
  })
}

interface AccountOptions {
  readonly bank?: string
  readonly account?: string
  readonly name?: string
}

/** The beneficiary, if the flags name another account than the payer's. @throws Failure */
function otherAccount({ bank, account, name }: AccountOptions) {
  if (bank === undefined && account === undefined && name === undefined) return {}
  if (bank === undefined || account === undefined || name === undefined) {
    throw new Failure(EXIT.usage, 'another account needs --bank, --account and --name')
  }
  return { beneficiary: { bankCode: bank, accountNumber: account, accountName: name } }
}

function recipientText(beneficiary: Beneficiary | undefined): string {
  if (beneficiary === undefined) return 'its payer'
  const { bankCode } = beneficiary
  return visible(`${beneficiaryText(beneficiary)} (${bankCode}), once another person approves`)
}

/** The most pages of unmatched payments that are read to find one payment. */
const PAGES_MAX = 10

/** "1500.00 NGN from CHIDI OKAFOR, 0123456785, to 9012345678"; empty: the payment was not found. */
async function unmatchedText(service: Service, id: string): Promise<string> {
  const client = service.client(ReconciliationService)
  const pages = pagesOf((pageToken) => client.listUnmatchedPayments({ pageSize: 200, pageToken }))
  let read = 0
  for await (const { payments } of pages) {
    const found = payments.find((payment) => payment.id === id)
    if (found) return paymentText(found, 'to')
    if (++read === PAGES_MAX) break
  }
  return ''
}

/** "1500.00 NGN from CHIDI OKAFOR, 0123456785, into 9012345678" */
async function transactionText(service: Service, transactionId: string): Promise<string> {
  const { timeline } = await service.client(OverviewService).getTimeline({ transactionId })
  if (!timeline?.transaction) return ''
  return paymentText(timeline.transaction, 'into')
}

function paymentText(
  {
    amountMinor,
    payer,
    accountNumber,
  }: Pick<Transaction, 'amountMinor' | 'accountNumber'> & { readonly payer?: Payer | undefined },
  preposition: string,
): string {
  const from = [payer?.name, payer?.accountNumber].filter((text) => !!text).join(', ')
  return `${formatAmount(amountMinor)} NGN${from && ` from ${from}`}, ${preposition} ${accountNumber}`
}
