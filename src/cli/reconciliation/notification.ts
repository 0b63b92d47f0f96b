import type { Timestamp } from '@bufbuild/protobuf/wkt'
import type { Command } from 'commander'
import {
  type Notification,
  NotificationResult,
  NotificationState,
} from '../../../gen/inflow/notification/v1/notification_pb.ts'
import {
  ListHeldNotificationsResponseSchema,
  ListNotificationsResponseSchema,
  NotificationService,
  ResolveNotificationResponseSchema,
  RetryNotificationResponseSchema,
  ShowNotificationResponseSchema,
} from '../../../gen/inflow/notification/v1/notification_service_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { formatAmount } from '../../core/money.ts'
import { confirmAction, YES, type YesOption } from '../confirm.ts'
import { localTime } from '../local-time.ts'
import {
  addPageOptions,
  enumName,
  enumOption,
  enumsOption,
  nextPage,
  notePage,
  type PageOptions,
  time,
} from '../options.ts'
import { type Column, fields, table } from '../output.ts'
import { printResponse } from '../print-response.ts'
import { serviceAction } from '../service-action.ts'
import { addServiceOptions, addVerb } from '../verb.ts'

const COLUMNS: readonly Column<Notification>[] = [
  { title: 'Id', of: ({ id }) => id },
  { title: 'Received at', of: ({ receivedAt }) => localTime.format(receivedAt) },
  { title: 'Bank', of: ({ bank }) => enumName(bank, Bank, 'BANK_') },
  { title: 'Account', of: ({ accountNumber }) => accountNumber },
  { title: 'Amount', right: true, of: ({ amountMinor }) => formatAmount(amountMinor) },
  { title: 'Session', of: ({ sessionId }) => sessionId },
  { title: 'Cause', of: ({ cause }) => cause },
]

const RESULT: Column<Notification> = {
  title: 'Result',
  of: ({ result }) => enumName(result, NotificationResult),
}
const FOUND = COLUMNS.toSpliced(-1, 0, RESULT)

const DETAILS: readonly Column<Notification>[] = [
  ...COLUMNS,
  { title: 'State', of: ({ state }) => enumName(state, NotificationState) },
  RESULT,
  { title: 'Tries', of: ({ tries }) => String(tries) },
  { title: 'Resolved at', of: ({ resolvedAt }) => localTime.format(resolvedAt) },
  { title: 'Note', of: ({ note }) => note },
]

/** `inflow notification` */
export function notification(noun: Command): void {
  addPageOptions(
    addVerb(noun, 'list', {
      summary: 'list the notifications in manual review, newest first',
      example: 'notification list --bank PROVIDUS --limit 20',
    }).addOption(enumOption('--bank <code>', 'only this bank', Bank, 'BANK_')),
  ).action(listHeld)
  addPageOptions(
    addVerb(noun, 'find', {
      summary: 'list stored notifications, newest first: of a payment, or of a period',
      example: 'notification find --bank 9PSB --session 090286261120100000123456789012',
    })
      .addOption(enumOption('--bank <code>', 'only this bank', Bank, 'BANK_'))
      .option('--session <id>', 'only of the payment with this session id; needs --bank')
      .addOption(enumsOption('--result <result...>', 'only with these results', NotificationResult))
      .option('--from <time>', 'received at this time or later', time)
      .option('--to <time>', 'received before this time', time),
  ).action(find)
  addVerb(noun, 'show', {
    summary: 'show a stored notification with its body; the audit log states who saw it',
    example: 'notification show ntf_01…',
  })
    .argument('<id>', 'the notification, ntf_…')
    .action(show)
  addVerb(noun, 'retry', {
    summary: 'have a held notification processed again within seconds; it may be held again',
    example: 'notification retry ntf_01…',
  })
    .argument('<id>', 'the notification, ntf_…')
    .action(retry)
  addVerb(noun, 'resolve', {
    summary: 'end the manual review of a notification; nothing is recorded',
    example: 'notification resolve ntf_01… --note "the bank reversed it on 20 November"',
  })
    .argument('<id>', 'the notification, ntf_…')
    .requiredOption('--note <text>', 'how and why it was resolved')
    .option(...YES)
    .action(resolve)
  addServiceOptions(noun)
}

const listHeld = serviceAction<PageOptions & { bank?: Bank }>(async (service, options) => {
  const client = service.client(NotificationService)
  const request = { bank: options.bank ?? Bank.BANK_UNSPECIFIED, pageSize: options.limit ?? 0 }
  const response = await nextPage(
    options,
    (pageToken) => client.listHeldNotifications({ ...request, pageToken }),
    ({ notifications }) => notifications.length === 0,
  )
  printResponse(options, ListHeldNotificationsResponseSchema, response, () =>
    table(response.notifications, COLUMNS),
  )
  notePage(response)
})

interface FindOptions extends PageOptions {
  readonly bank?: Bank
  readonly session?: string
  readonly result?: readonly NotificationResult[]
  readonly from?: Timestamp
  readonly to?: Timestamp
}

const find = serviceAction<FindOptions>(async (service, options) => {
  const client = service.client(NotificationService)
  const { from, to } = options
  const request = {
    bank: options.bank ?? Bank.BANK_UNSPECIFIED,
    sessionId: options.session ?? '',
    results: [...(options.result ?? [])],
    ...(from && { from }),
    ...(to && { to }),
    pageSize: options.limit ?? 0,
  }
  const response = await nextPage(
    options,
    (pageToken) => client.listNotifications({ ...request, pageToken }),
    ({ notifications }) => notifications.length === 0,
  )
  printResponse(options, ListNotificationsResponseSchema, response, () =>
    table(response.notifications, FOUND),
  )
  notePage(response)
})

const show = serviceAction(async (service, options, notificationId) => {
  const response = await service.client(NotificationService).showNotification({ notificationId })
  printResponse(
    options,
    ShowNotificationResponseSchema,
    response,
    () => `${shown(response)}\n\n${response.body}`,
  )
})

const retry = serviceAction(async (service, options, notificationId) => {
  const response = await service.client(NotificationService).retryNotification({ notificationId })
  printResponse(options, RetryNotificationResponseSchema, response, () => shown(response))
})

const resolve = serviceAction<YesOption & { note: string }>(
  async (service, options, notificationId) => {
    const { note } = options
    await confirmAction(service, options, {
      word: 'resolve',
      target: notificationId,
      effect: 'Its manual review ends, and nothing is recorded of it.',
    })
    const response = await service
      .client(NotificationService)
      .resolveNotification({ notificationId, note })
    printResponse(options, ResolveNotificationResponseSchema, response, () => shown(response))
  },
)

function shown(response: { readonly notification?: Notification | undefined }): string {
  return response.notification ? fields(response.notification, DETAILS) : ''
}
