import type { Command } from 'commander'
import {
  AccountService,
  CloseAccountResponseSchema,
} from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { confirmAction, YES, type YesOption } from '../confirm.ts'
import { addBusinessOption } from '../options.ts'
import { printResponse } from '../print-response.ts'
import { serviceAction } from '../service-action.ts'
import { addVerb } from '../verb.ts'
import { accountFields } from './account-columns.ts'

/** `inflow account close` */
export function addCloseAccount(noun: Command): void {
  addBusinessOption(
    addVerb(noun, 'close', {
      summary: 'close an account; later payments into it are recorded as unmatched',
      example: 'account close order-1',
    }),
  )
    .argument('<reference>', "the account's reference (R-…) or the business's own")
    .option(...YES)
    .action(closeAccount)
}

const closeAccount = serviceAction<YesOption & { business?: string }>(
  async (service, options, reference) => {
    const businessId = service.business(options.business)
    const client = service.client(AccountService)
    await confirmAction(service, options, {
      word: 'close',
      target: `account ${reference}`,
      findId: async () => (await client.getAccount({ businessId, reference })).account?.id ?? '',
      effect: 'It cannot be opened again. Later payments into it are recorded as unmatched.',
    })
    const response = await client.closeAccount({ businessId, reference })
    printResponse(options, CloseAccountResponseSchema, response, () =>
      accountFields(response.account),
    )
  },
)
