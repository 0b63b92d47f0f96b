import type { Command } from 'commander'
import {
  ListReviewItemsResponseSchema,
  OverviewService,
} from '../../gen/inflow/overview/v1/overview_service_pb.ts'
import { type ReviewItem, ReviewKind } from '../../gen/inflow/overview/v1/review_pb.ts'
import { formatAmount } from '../core/money.ts'
import { localTime } from './local-time.ts'
import {
  addModeOptions,
  addPageOptions,
  enumName,
  enumOption,
  type ModeOptions,
  modeOf,
  nextPage,
  notePage,
  type PageOptions,
} from './options.ts'
import { type Column, note, table } from './output.ts'
import { printResponse } from './print-response.ts'
import { serviceAction } from './service-action.ts'
import { addServiceOptions, addVerb } from './verb.ts'

const COLUMNS: readonly Column<ReviewItem>[] = [
  { title: 'Kind', of: ({ kind }) => enumName(kind, ReviewKind) },
  { title: 'Since', of: ({ since }) => localTime.format(since) },
  { title: 'Id', of: ({ id }) => id },
  {
    title: 'Amount',
    right: true,
    of: ({ amountMinor }) => (amountMinor === 0n ? '' : formatAmount(amountMinor)),
  },
  { title: 'Business', of: ({ businessId }) => businessId },
  { title: 'What', of: ({ text }) => text },
  { title: 'Actions', of: ({ actions }) => actions.map(methodOf).join(', ') },
]

/** The method without its service. */
const methodOf = (action: string) => action.slice(action.indexOf('/') + 1)

/** `inflow review` */
export function review(noun: Command): void {
  addPageOptions(
    addModeOptions(
      addVerb(noun, 'list', {
        summary: 'list what waits for a decision, oldest first',
        example: 'review list --kind UNMATCHED_PAYMENT',
      }),
    )
      .option('--business <id>', 'only of this business')
      .addOption(enumOption('--kind <kind>', 'only of this kind', ReviewKind)),
  ).action(listReview)
  addServiceOptions(noun)
}

interface ListOptions extends PageOptions, ModeOptions {
  readonly business?: string
  readonly kind?: ReviewKind
}

const listReview = serviceAction<ListOptions>(async (service, options) => {
  const client = service.client(OverviewService)
  const response = await nextPage(
    options,
    (pageToken) =>
      client.listReviewItems({
        ...modeOf(options),
        businessId: options.business ?? '',
        kinds: options.kind === undefined ? [] : [options.kind],
        pageSize: options.limit ?? 0,
        pageToken,
      }),
    ({ items }) => items.length === 0,
  )
  printResponse(options, ListReviewItemsResponseSchema, response, () =>
    table(response.items, COLUMNS),
  )
  const counts = response.counts.map(
    ({ kind, count, more }) => `${count}${more ? '+' : ''} ${enumName(kind, ReviewKind)}`,
  )
  if (counts.length > 0) note(`Waiting: ${counts.join(', ')}`)
  notePage(response)
})
