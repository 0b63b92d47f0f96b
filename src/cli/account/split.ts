import { type Command, InvalidArgumentError } from 'commander'
import {
  AccountService,
  SetAccountSplitResponseSchema,
} from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { FeeBearer } from '../../../gen/inflow/account/v1/split_pb.ts'
import { parseAmount } from '../../core/money.ts'
import { EXIT, Failure } from '../failure.ts'
import { addBusinessOption, enumOption } from '../options.ts'
import { printResponse } from '../print-response.ts'
import { serviceAction } from '../service-action.ts'
import { addVerb } from '../verb.ts'
import { accountFields } from './account-columns.ts'

/** The options that say how the payments into an account are divided. */
export interface SplitOptions {
  readonly share?: readonly Recipient[]
  readonly feeBearer?: FeeBearer
}

interface Recipient {
  readonly businessId: string
  readonly basisPoints: number
  readonly amountMinor: bigint
}

export function addSplitOptions(verb: Command): Command {
  return verb
    .option(
      '--share <business=share...>',
      'businesses that get a share, in their order: biz_…=12.5% or biz_…=500 (naira)',
      share,
    )
    .addOption(enumOption('--fee-bearer <who>', 'who bears the fee of a split', FeeBearer))
}

/** The split of a request; without recipients, undefined. */
export function splitOf({ share: recipients = [], feeBearer }: SplitOptions) {
  if (recipients.length === 0) return undefined
  return { recipients: [...recipients], feeBearer: feeBearer ?? FeeBearer.UNSPECIFIED }
}

/** `inflow account split` */
export function addSplit(noun: Command): void {
  addSplitOptions(
    addBusinessOption(
      addVerb(noun, 'split', {
        summary: 'divide the payments into an account that are recorded from now on',
        example: 'account split order-1 --share biz_…=12.5% biz_…=500',
      }),
    ).argument('<reference>', "the account's reference (R-…) or the business's own"),
  )
    .option('--none', 'leave everything to the owner')
    .action(setSplit)
}

const setSplit = serviceAction<SplitOptions & { business?: string; none?: boolean }>(
  async (service, options, reference) => {
    const split = splitOf(options)
    if ((split === undefined) !== (options.none === true)) {
      throw new Failure(EXIT.usage, 'pass either --share or --none')
    }
    const response = await service.client(AccountService).setAccountSplit({
      businessId: service.business(options.business),
      reference,
      ...(split && { split }),
    })
    printResponse(options, SetAccountSplitResponseSchema, response, () =>
      accountFields(response.account),
    )
  },
)

function share(text: string, before: readonly Recipient[] = []): readonly Recipient[] {
  const [, businessId = '', number = '', sign] = /^([^=]+)=([\d.]+)(%?)$/.exec(text) ?? []
  // A percentage with two decimals is a number of basis points, as naira are of kobo.
  const value = parseAmount(number)
  if (value === undefined || value === 0n) {
    throw new InvalidArgumentError('Must be business=percentage% or business=naira.')
  }
  const recipient =
    sign === '%'
      ? { businessId, basisPoints: Number(value), amountMinor: 0n }
      : { businessId, basisPoints: 0, amountMinor: value }
  return [...before, recipient]
}
