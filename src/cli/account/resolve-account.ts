import type { Command } from 'commander'
import {
  AccountService,
  ResolveAccountResponseSchema,
} from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { confirmAction, YES, type YesOption } from '../confirm.ts'
import { EXIT, Failure } from '../failure.ts'
import { addBusinessOption } from '../options.ts'
import { note } from '../output.ts'
import { printResponse } from '../print-response.ts'
import { serviceAction } from '../service-action.ts'
import { addVerb } from '../verb.ts'
import { accountFields } from './account-columns.ts'

/** `inflow account resolve` */
export function addResolveAccount(noun: Command): void {
  addBusinessOption(
    addVerb(noun, 'resolve', {
      summary: 'resolve a pending account with the result that the bank reports',
      example: 'account resolve order-1 --account-number 1234567890',
    }),
  )
    .argument('<reference>', "the account's reference (R-…) or the business's own")
    .option('--account-number <digits>', 'the bank opened it: its account number, ten digits')
    .option('--account-name <name>', 'its name at the bank (default: the requested name)')
    .option('--bank-account-id <id>', "the bank's own identifier of the account, if it has one")
    .option('--not-opened', 'the bank opened nothing: the reference may be used again')
    .option(...YES)
    .action(resolveAccount)
}

interface ResolveOptions extends YesOption {
  readonly business?: string
  readonly accountNumber?: string
  readonly accountName?: string
  readonly bankAccountId?: string
  readonly notOpened?: boolean
}

const resolveAccount = serviceAction<ResolveOptions>(async (service, options, reference) => {
  const { accountNumber, accountName = '', bankAccountId = '', notOpened } = options
  if ((accountNumber === undefined) === (notOpened !== true)) {
    throw new Failure(EXIT.usage, 'pass either --account-number or --not-opened')
  }
  const businessId = service.business(options.business)
  const client = service.client(AccountService)
  await confirmAction(service, options, {
    word: 'resolve',
    target: `account ${reference}`,
    findId: async () => (await client.getAccount({ businessId, reference })).account?.id ?? '',
    effect:
      accountNumber === undefined
        ? 'The bank opened nothing: the pending account is removed.'
        : `Its number becomes ${accountNumber}: payments into that number are credited to its business.`,
  })
  const response = await client.resolveAccount({
    businessId,
    reference,
    resolution:
      accountNumber === undefined
        ? { case: 'notOpened', value: true }
        : { case: 'opened', value: { accountNumber, accountName, bankAccountId } },
  })
  printResponse(options, ResolveAccountResponseSchema, response, () =>
    accountFields(response.account),
  )
  if (!response.account) note('Nothing was opened; the reference may be used again.')
})
