import type { Timestamp } from '@bufbuild/protobuf/wkt'
import type { Command } from 'commander'
import {
  AdminService,
  ListAuditEntriesResponseSchema,
} from '../../../gen/inflow/admin/v1/admin_service_pb.ts'
import type { AuditEntry } from '../../../gen/inflow/admin/v1/audit_pb.ts'
import { answer } from '../answer.ts'
import { localTime } from '../local-time.ts'
import { addPageOptions, nextPage, notePage, type PageOptions, time } from '../options.ts'
import { type Column, table } from '../output.ts'
import { calling } from '../service.ts'
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
      summary: 'list who did what to what, newest first; --json has every field',
      example: 'audit list --action key.revoke --from 2026-11-01T00:00:00Z',
    })
      .option('--business <id>', 'that concerns this business')
      .option('--actor <id>', 'by this token or key')
      .option('--action <action>', 'of this kind, such as key.revoke')
      .option('--target <id>', 'done to this key, token, endpoint, …')
      .option('--from <time>', 'at this time or later', time)
      .option('--to <time>', 'before this time', time)
      .option('--oldest-first', 'oldest first'),
  ).action(listEntries)
  addVerb(noun, 'verify', {
    summary:
      'verify that no entry of the audit log was changed, removed, moved or put in; prints the ' +
      'hash of the last entry, and exits with 1 and the first bad entry when something was',
    example: `audit verify --expect-head ${'5f'.repeat(32)}`,
  })
    .option(
      '--expect-head <hash>',
      'a hash that an earlier run printed: it must be in the log still',
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

const listEntries = calling<ListOptions>(async (service, options) => {
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
  answer(options, ListAuditEntriesResponseSchema, response, () => table(response.entries, ROW))
  notePage(response)
})
