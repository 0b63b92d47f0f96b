import type { Command } from 'commander'
import {
  AccountService,
  CloseAccountResponseSchema,
} from '../../../gen/inflow/account/v1/account_service_pb.ts'
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
    .action(closeAccount)
}

const closeAccount = serviceAction<{ business?: string }>(async (service, options, reference) => {
  const businessId = service.business(options.business)
  const response = await service.client(AccountService).closeAccount({ businessId, reference })
  printResponse(options, CloseAccountResponseSchema, response, () =>
    accountFields(response.account),
  )
})
