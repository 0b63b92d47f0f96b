import type { Timestamp } from '@bufbuild/protobuf/wkt'
import type { Command } from 'commander'
import {
  AdminService,
  ListAuditEntriesResponseSchema,
} from '../../../gen/inflow/admin/v1/admin_service_pb.ts'
import type { AuditEntry } from '../../../gen/inflow/admin/v1/audit_pb.ts'
import { localTime } from '../local-time.ts'
import { addPageOptions, nextPage, notePage, type PageOptions, time } from '../options.ts'
import { type Column, table } from '../output.ts'
import { printResponse } from '../print-response.ts'
import { serviceAction } from '../service-action.ts'
import { addServiceOptions, addVerb } from '../verb.ts'
import { headHash, verifyAudit } from './audit-verify.ts'

const ROW: readonly Column<AuditEntry>[] = [
  { title: 'Number', right: true, of: ({ number }) => `${number}` },
  { title: 'At', of: ({ at }) => localTime.format(at) },
  { title: 'Actor', of: ({ actor }) => actor?.name || actor?.id || actor?.kind || '' },
  { title: 'From', of: ({ address }) => address },
  { title: 'Action', of: ({ action }) => action },
  { title: 'Target', of: ({ targetId }) => targetId },
  { title: 'Business', of: ({ businessId }) => businessId },
  { title: 'Details', of: ({ details }) => (details === '{}' ? '' : details) },
]

/** `inflow audit` */
export function audit(noun: Command): void {
  addPageOptions(
    addVerb(noun, 'list', {
      summary: 'list the entries of the audit log, newest first; --json prints every field',
      example: 'audit list --action key.revoke --from 2026-11-01T00:00:00Z',
    })
      .option('--business <id>', 'only entries that concern this business')
      .option('--actor <id>', 'only changes by this token or key')
      .option('--action <action>', 'only this action, such as key.revoke')
      .option('--target <id>', 'only changes of this key, token, endpoint, …')
      .option('--from <time>', 'only entries at this time or later', time)
      .option('--to <time>', 'only entries before this time', time)
      .option('--oldest-first', 'list the oldest entries first'),
  ).action(listEntries)
  addVerb(noun, 'verify', {
    summary:
      'verify that no entry of the audit log was changed, removed, moved or inserted, by hashes and ' +
      'by MACs under the master key; prints the hash of the last entry; otherwise names the first ' +
      'bad entry and exits with 1',
    example: `audit verify --expect-head ${'5f'.repeat(32)}`,
  })
    .option(
      '--expect-head <hash>',
      'a head that an earlier run printed, or the service logged; fails if the log lacks it',
      headHash,
    )
    .action(verifyAudit)
  addServiceOptions(noun)
}

interface ListOptions extends PageOptions {
  readonly business?: string
  readonly actor?: string
  readonly action?: string
  readonly target?: string
  readonly from?: Timestamp
  readonly to?: Timestamp
  readonly oldestFirst?: boolean
}

const listEntries = serviceAction<ListOptions>(async (service, options) => {
  const { from, to } = options
  const client = service.client(AdminService)
  const request = {
    businessId: options.business ?? '',
    actorId: options.actor ?? '',
    action: options.action ?? '',
    targetId: options.target ?? '',
    oldestFirst: options.oldestFirst ?? false,
    pageSize: options.limit ?? 0,
    ...(from && { from }),
    ...(to && { to }),
  }
  const response = await nextPage(
    options,
    (pageToken) => client.listAuditEntries({ ...request, pageToken }),
    ({ entries }) => entries.length === 0,
  )
  printResponse(options, ListAuditEntriesResponseSchema, response, () =>
    table(response.entries, ROW),
  )
  notePage(response)
})
