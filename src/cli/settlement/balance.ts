import type { Command } from 'commander'
import type { Balance } from '../../../gen/inflow/settlement/v1/settlement_pb.ts'
import {
  GetBalanceResponseSchema,
  SettlementService,
} from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { formatAmount } from '../../core/money.ts'
import { addBusinessOption } from '../options.ts'
import { type Column, fields } from '../output.ts'
import { printResponse } from '../print-response.ts'
import { serviceAction } from '../service-action.ts'
import { addOwnServiceOptions } from '../verb.ts'

const COLUMNS: readonly Column<Balance>[] = [
  { title: 'Pending', of: ({ pendingMinor }) => formatAmount(pendingMinor) },
  { title: 'Available', of: ({ availableMinor }) => formatAmount(availableMinor) },
  { title: 'Fees', of: ({ feesMinor }) => formatAmount(feesMinor) },
  { title: 'Currency', of: ({ currency }) => currency },
]

/** `inflow balance` */
export function balance(noun: Command): void {
  addBusinessOption(noun)
    .option('--test', 'the balance in test mode (default: live mode)')
    .addHelpText('after', '\nExample:\n  inflow balance --business biz_…')
  addOwnServiceOptions(noun).action(
    serviceAction<{ business?: string; test?: boolean }>(async (service, options) => {
      const businessId = service.business(options.business)
      const response = await service
        .client(SettlementService)
        .getBalance({ businessId, test: options.test ?? false })
      printResponse(options, GetBalanceResponseSchema, response, () =>
        response.balance ? fields(response.balance, COLUMNS) : '',
      )
    }),
  )
}
