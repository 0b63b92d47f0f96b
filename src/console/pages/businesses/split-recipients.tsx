import { useInfiniteQuery } from '@connectrpc/connect-query'
import { AccountService } from '../../../../gen/inflow/account/v1/account_service_pb.ts'
import type { ApprovedRecipient } from '../../../../gen/inflow/account/v1/split_pb.ts'
import { useMay } from '../../session/session.tsx'
import { Action } from '../../ui/controls/action.tsx'
import { TextField } from '../../ui/form/fields.tsx'
import { Empty } from '../../ui/lists/empty.tsx'
import { ListFrame } from '../../ui/lists/list.tsx'
import { type Column, Table } from '../../ui/lists/table.tsx'
import { Section } from '../../ui/page.tsx'
import { Id, Time } from '../../ui/values.tsx'

type RecipientPages = ReturnType<typeof useSplitRecipients>

export function useSplitRecipients(businessId: string) {
  return useInfiniteQuery(
    AccountService.method.listSplitRecipients,
    { businessId, pageSize: 20, pageToken: '' },
    {
      pageParamKey: 'pageToken',
      getNextPageParam: (last) => last.nextPageToken || undefined,
      enabled: useMay()(AccountService.method.listSplitRecipients),
    },
  )
}

const COLUMNS: readonly Column<ApprovedRecipient>[] = [
  { key: 'id', title: 'Business', render: ({ recipientId }) => <Id text={recipientId} /> },
  { key: 'approved', title: 'Approved', render: ({ approvedAt }) => <Time at={approvedAt} /> },
  { key: 'do', title: '', render: (approved) => <Revoke approved={approved} /> },
]

/** The businesses that this one may divide its payments with. */
export function SplitRecipients({
  businessId,
  pages,
}: {
  readonly businessId: string
  readonly pages: RecipientPages
}) {
  const rows = pages.data?.pages.flatMap(({ recipients }) => recipients) ?? []
  return (
    <Section title="Split recipients" actions={<Approve businessId={businessId} />}>
      <ListFrame
        pages={pages}
        isEmpty={rows.length === 0}
        empty={
          <Empty
            title="No recipients"
            command={`inflow recipient approve biz_… --business ${businessId}`}
          >
            The business may divide its payments only with businesses that an operator has approved.
          </Empty>
        }
      >
        <Table
          label="Split recipients"
          columns={COLUMNS}
          rows={rows}
          keyOf={({ recipientId }) => recipientId}
        />
      </ListFrame>
    </Section>
  )
}

function Approve({ businessId }: { readonly businessId: string }) {
  return (
    <Action
      method={AccountService.method.approveSplitRecipient}
      label="Approve a recipient"
      icon="plus"
      says="The business may divide the payments into any of its accounts with it, up to all of each payment."
      request={(_reason, form) => ({ businessId, recipientId: form.text('recipientId') })}
      target={({ recipient }) => recipient?.recipientId ?? ''}
    >
      <TextField name="recipientId" label="Recipient" placeholder="biz_…" maxLength={64} required />
    </Action>
  )
}

function Revoke({
  approved: { businessId, recipientId },
}: {
  readonly approved: ApprovedRecipient
}) {
  return (
    <Action
      method={AccountService.method.revokeSplitRecipient}
      label="Revoke"
      kind="danger"
      target={recipientId}
      says="No further split may name it. Splits that name it stay until they are changed."
      request={() => ({ businessId, recipientId })}
    />
  )
}
