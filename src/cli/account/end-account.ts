import type { Command } from 'commander'
import {
  AccountService,
  CloseAccountResponseSchema,
  ResolveAccountResponseSchema,
} from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { EXIT, Failure } from '../failure.ts'
import { addBusinessOption } from '../options.ts'
import { note } from '../output.ts'
import { printResponse } from '../print-response.ts'
import { serviceAction } from '../service-action.ts'
import { addVerb } from '../verb.ts'
import { whole } from './account-columns.ts'

const REFERENCE = ['<reference>', "the account's reference (R-…) or the business's own"] as const

/** `inflow account close`, `inflow account resolve` */
export function addAccountEnds(noun: Command): void {
  addBusinessOption(
    addVerb(noun, 'close', {
      summary: 'close an account; payments into it are kept as unmatched from then on',
      example: 'account close order-1',
    }),
  )
    .argument(...REFERENCE)
    .action(closeAccount)
  addBusinessOption(
    addVerb(noun, 'resolve', {
      summary: 'end an opening without a clear end, by what the bank says',
      example: 'account resolve order-1 --account-number 1234567890',
    }),
  )
    .argument(...REFERENCE)
    .option('--account-number <digits>', 'the bank opened it: its number, ten digits')
    .option('--account-name <name>', 'its name at the bank (default: as it was asked for)')
    .option('--bank-account-id <id>', "the bank's own identifier of it, where it has one")
    .option('--not-opened', 'the bank opened nothing: the reference may be used again')
    .action(resolveAccount)
}

const closeAccount = serviceAction<{ business?: string }>(async (service, options, reference) => {
  const businessId = service.business(options.business)
  const response = await service.client(AccountService).closeAccount({ businessId, reference })
  printResponse(options, CloseAccountResponseSchema, response, () => whole(response.account))
})

interface ResolveOptions {
  readonly business?: string
  readonly accountNumber?: string
  readonly accountName?: string
  readonly bankAccountId?: string
  readonly notOpened?: boolean
}

const resolveAccount = serviceAction<ResolveOptions>(async (service, options, reference) => {
  const { accountNumber, accountName = '', bankAccountId = '', notOpened } = options
  if ((accountNumber === undefined) === (notOpened !== true)) {
    throw new Failure(EXIT.usage, 'say either --account-number or --not-opened')
  }
  const response = await service.client(AccountService).resolveAccount({
    businessId: service.business(options.business),
    reference,
    resolution:
      accountNumber === undefined
        ? { case: 'notOpened', value: true }
        : { case: 'opened', value: { accountNumber, accountName, bankAccountId } },
  })
  printResponse(options, ResolveAccountResponseSchema, response, () => whole(response.account))
  if (!response.account) note('Nothing was opened; the reference may be used again.')
})
