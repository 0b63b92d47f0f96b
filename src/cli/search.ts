import type { Command } from 'commander'
import {
  OverviewService,
  SearchResponseSchema,
} from '../../gen/inflow/overview/v1/overview_service_pb.ts'
import { ResultKind, type SearchResult } from '../../gen/inflow/overview/v1/search_pb.ts'
import { formatAmount } from '../core/money.ts'
import { localTime } from './local-time.ts'
import { addModeOptions, enumName, type ModeOptions, modeOf } from './options.ts'
import { type Column, note, table } from './output.ts'
import { printResponse } from './print-response.ts'
import { serviceAction } from './service-action.ts'
import { addOwnServiceOptions } from './verb.ts'

const COLUMNS: readonly Column<SearchResult>[] = [
  { title: 'Kind', of: ({ kind }) => enumName(kind, ResultKind) },
  { title: 'Id', of: ({ id }) => id },
  { title: 'Title', of: ({ title }) => title },
  { title: 'About', of: ({ subtitle }) => subtitle },
  { title: 'At', of: ({ at }) => localTime.format(at) },
  {
    title: 'Amount',
    right: true,
    of: ({ amountMinor }) => (amountMinor === 0n ? '' : formatAmount(amountMinor)),
  },
  { title: 'Status', of: ({ status }) => status },
  { title: 'Business', of: ({ businessId }) => businessId },
]

/** `inflow search` */
export function search(noun: Command): void {
  addModeOptions(noun)
    .argument('<text>', 'an id, a reference, an account number, an e-mail address, a name, …')
    .option('--business <id>', 'only what belongs to this business')
    .addHelpText('after', '\nExample:\n  inflow search 120001261120100000123456789012')
  addOwnServiceOptions(noun).action(
    serviceAction<ModeOptions & { business?: string }>(async (service, options, query) => {
      const response = await service
        .client(OverviewService)
        .search({ query, businessId: options.business ?? '', ...modeOf(options) })
      printResponse(options, SearchResponseSchema, response, () => table(response.results, COLUMNS))
      if (response.more.length > 0) {
        const kinds = response.more.map((kind) => enumName(kind, ResultKind)).join(', ')
        note(`There are more of ${kinds}: name a business, or more of the text.`)
      }
    }),
  )
}
