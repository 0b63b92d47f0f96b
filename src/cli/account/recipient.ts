import type { Command } from 'commander'
import {
  AccountService,
  ApproveSplitRecipientResponseSchema,
  ListSplitRecipientsResponseSchema,
} from '../../../gen/inflow/account/v1/account_service_pb.ts'
import type { ApprovedRecipient } from '../../../gen/inflow/account/v1/split_pb.ts'
import { localTime } from '../local-time.ts'
import { addBusinessOption, addPageOptions, notePage, type PageOptions } from '../options.ts'
import { type Column, fields, note, table } from '../output.ts'
import { printResponse } from '../print-response.ts'
import { serviceAction } from '../service-action.ts'
import { addServiceOptions, addVerb } from '../verb.ts'

interface BusinessOption {
  readonly business?: string
}

const COLUMNS: readonly Column<ApprovedRecipient>[] = [
  { title: 'Recipient', of: ({ recipientId }) => recipientId },
  { title: 'Business', of: ({ businessId }) => businessId },
  { title: 'Approved at', of: ({ approvedAt }) => localTime.format(approvedAt) },
]

/** `inflow recipient` */
export function recipient(noun: Command): void {
  addBusinessOption(
    addVerb(noun, 'approve', {
      summary: 'let a business divide its payments with another one',
      example: 'recipient approve biz_01jd9w3k6t8v2x4z6b8d0f2h4j',
    }),
  )
    .argument('<recipient>', 'the business that may get a share')
    .action(approve)
  addBusinessOption(
    addVerb(noun, 'revoke', {
      summary:
        'let no further split name a recipient; those that name it stay until they are changed',
      example: 'recipient revoke biz_01jd9w3k6t8v2x4z6b8d0f2h4j',
    }),
  )
    .argument('<recipient>', 'the business that may get no share any more')
    .action(revoke)
  addPageOptions(
    addBusinessOption(
      addVerb(noun, 'list', {
        summary: 'list the approved recipients of a business',
        example: 'recipient list',
      }),
    ),
  ).action(list)
  addServiceOptions(noun)
}

const approve = serviceAction<BusinessOption>(async (service, options, recipientId) => {
  const businessId = service.business(options.business)
  const request = { businessId, recipientId }
  const response = await service.client(AccountService).approveSplitRecipient(request)
  printResponse(options, ApproveSplitRecipientResponseSchema, response, () =>
    response.recipient ? fields(response.recipient, COLUMNS) : '',
  )
})

const revoke = serviceAction<BusinessOption>(async (service, options, recipientId) => {
  const businessId = service.business(options.business)
  await service.client(AccountService).revokeSplitRecipient({ businessId, recipientId })
  note(`Revoked ${recipientId}.`)
})

const list = serviceAction<BusinessOption & PageOptions>(async (service, options) => {
  const response = await service.client(AccountService).listSplitRecipients({
    businessId: service.business(options.business),
    pageSize: options.limit ?? 0,
    pageToken: options.pageToken ?? '',
  })
  printResponse(options, ListSplitRecipientsResponseSchema, response, () =>
    table(response.recipients, COLUMNS),
  )
  notePage(response)
})
