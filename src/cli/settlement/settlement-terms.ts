import { InvalidArgumentError, Option } from 'commander'
import { Schedule, type Terms } from '../../../gen/inflow/settlement/v1/settlement_pb.ts'
import {
  GetSettlementTermsResponseSchema,
  SettlementService,
  UpdateSettlementTermsResponseSchema,
} from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { formatAmount } from '../../core/money.ts'
import { EXIT, Failure } from '../failure.ts'
import { amount } from '../options.ts'
import { type Column, fields } from '../output.ts'
import { printResponse } from '../print-response.ts'
import { serviceAction } from '../service-action.ts'

interface TermsOptions {
  readonly business?: string
  readonly schedule?: Schedule
  readonly days?: number
  readonly cutOff?: string
  readonly feeFlat?: bigint
  readonly feePercent?: number
  readonly feeCap?: bigint
}

const NAMES: Readonly<Record<string, Schedule>> = {
  instant: Schedule.INSTANT,
  daily: Schedule.DAILY,
  'working-days': Schedule.WORKING_DAYS,
}

export const TERMS_OPTIONS: readonly Option[] = [
  new Option(
    '--schedule <schedule>',
    `when payments are due: ${Object.keys(NAMES).join(', ')}`,
  ).argParser((text: string) => {
    const schedule = NAMES[text]
    if (!schedule) {
      throw new InvalidArgumentError(`Must be one of ${Object.keys(NAMES).join(', ')}.`)
    }
    return schedule
  }),
  new Option(
    '--days <count>',
    'working days after the payment, 1 to 30; only for working-days (default: 1)',
  ).argParser((text: string) => {
    const days = /^\d{1,2}$/.test(text) ? Number(text) : 0
    if (days < 1 || days > 30) throw new InvalidArgumentError('Must be a number from 1 to 30.')
    return days
  }),
  new Option('--cut-off <time>', 'time of day in Lagos as HH:MM (default: 00:00)'),
  new Option('--fee-flat <naira>', 'flat fee per payment (default: none)').argParser(amount),
  new Option(
    '--fee-percent <percent>',
    'percentage of each payment, such as 1.5 (default: none)',
  ).argParser((text: string) => {
    const [, whole, part = ''] = /^(\d{1,3})(?:\.(\d{1,2}))?$/.exec(text) ?? []
    const points = whole === undefined ? -1 : Number(whole) * 100 + Number(part.padEnd(2, '0'))
    if (points < 0 || points > 10_000) {
      throw new InvalidArgumentError(
        'Must be a percentage from 0 to 100 with at most two decimals.',
      )
    }
    return points
  }),
  new Option('--fee-cap <naira>', 'maximum fee per payment (default: none)').argParser(amount),
]

const COLUMNS: readonly Column<Terms>[] = [
  {
    title: 'Schedule',
    of: ({ schedule }) => Object.keys(NAMES).find((name) => NAMES[name] === schedule) ?? '',
  },
  { title: 'Working days', of: ({ workingDays }) => (workingDays ? `${workingDays}` : '') },
  { title: 'Cut-off in Lagos', of: ({ cutOff }) => cutOff },
  { title: 'Fee', of: ({ feeFlatMinor }) => formatAmount(feeFlatMinor) },
  { title: 'Fee percent', of: ({ feeBasisPoints }) => (feeBasisPoints / 100).toFixed(2) },
  {
    title: 'Maximum fee',
    of: ({ feeCapMinor }) => (feeCapMinor === 0n ? '' : formatAmount(feeCapMinor)),
  },
]

/** Shows the terms; with a schedule, replaces them first. */
export const terms = serviceAction<TermsOptions>(async (service, options) => {
  const businessId = service.business(options.business)
  const client = service.client(SettlementService)
  if (options.schedule === undefined) {
    rejectWithoutSchedule(options)
    const response = await client.getSettlementTerms({ businessId })
    printResponse(options, GetSettlementTermsResponseSchema, response, () => show(response.terms))
    return
  }
  const response = await client.updateSettlementTerms({
    businessId,
    terms: {
      schedule: options.schedule,
      workingDays: options.days ?? (options.schedule === Schedule.WORKING_DAYS ? 1 : 0),
      cutOff: options.cutOff ?? '',
      feeFlatMinor: options.feeFlat ?? 0n,
      feeBasisPoints: options.feePercent ?? 0,
      feeCapMinor: options.feeCap ?? 0n,
    },
  })
  printResponse(options, UpdateSettlementTermsResponseSchema, response, () => show(response.terms))
})

function rejectWithoutSchedule(options: TermsOptions): void {
  const { days, cutOff, feeFlat, feePercent, feeCap } = options
  if ([days, cutOff, feeFlat, feePercent, feeCap].every((each) => each === undefined)) return
  throw new Failure(EXIT.usage, 'terms are replaced as a whole: --schedule is required')
}

function show(shown: Terms | undefined): string {
  return shown ? fields(shown, COLUMNS) : ''
}
