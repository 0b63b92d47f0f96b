import '../styles/businesses.css'
import { useInfiniteQuery, useQuery } from '@connectrpc/connect-query'
import { useParams } from 'wouter'
import { AccountService } from '../../../gen/inflow/account/v1/account_service_pb.ts'
import type { ApprovedRecipient } from '../../../gen/inflow/account/v1/split_pb.ts'
import type { Business } from '../../../gen/inflow/business/v1/business_pb.ts'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { SessionService } from '../../../gen/inflow/session/v1/session_service_pb.ts'
import { Schedule, type Terms } from '../../../gen/inflow/settlement/v1/settlement_pb.ts'
import { SettlementService } from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { count, naira } from '../format/money.ts'
import { useMay } from '../session/session.tsx'
import { useShowObject } from '../session/view-scope.tsx'
import { Action } from '../ui/action.tsx'
import { TextField } from '../ui/form.tsx'
import { type Column, ListFrame, Table } from '../ui/list.tsx'
import { Empty, Facts, Failure, Page, Section, Waiting } from '../ui/page.tsx'
import { Id, PageLink, Time } from '../ui/values.tsx'
import { Keys, useKeys } from './keys.tsx'
import { PortalLinks, usePortalLinks } from './portal-links.tsx'

export function BusinessPage() {
  const { id = '' } = useParams()
  const may = useMay()
  const read = useQuery(BusinessService.method.getBusiness, { businessId: id })
  // All that the page shows is asked for at once.
  const terms = useQuery(
    SettlementService.method.getSettlementTerms,
    { businessId: id },
    { enabled: may(SettlementService.method.getSettlementTerms) },
  )
  const keys = useKeys(id)
  const links = usePortalLinks(id)
  const recipients = useSplitRecipients(id)
  const business = read.data?.business
  useShowObject(business && { businessId: id })
  if (!business) {
    return (
      <Page title="Business">
        {read.error ? (
          <Failure error={read.error} onRetry={() => void read.refetch()} />
        ) : (
          <Waiting rows={12} />
        )}
      </Page>
    )
  }
  return (
    <Page title={business.name} actions={<EditBusiness business={business} />}>
      <div className="fact-columns">
        <BusinessFacts business={business} />
        {terms.data?.terms && <SettlementTerms businessId={id} terms={terms.data.terms} />}
      </div>
      <Keys businessId={id} pages={keys} />
      {may(SessionService.method.listPortalLinks) && <PortalLinks businessId={id} pages={links} />}
      {may(AccountService.method.listSplitRecipients) && (
        <SplitRecipients businessId={id} pages={recipients} />
      )}
    </Page>
  )
}

function BusinessFacts({ business }: { readonly business: Business }) {
  const { id } = business
  const query = { business: id }
  return (
    <Facts
      facts={[
        ['Id', <Id key="id" text={id} charsMax={40} />],
        ['Prefix of names', business.alias],
        ['Rate limit', rateText(business)],
        ['Created', <Time key="created" at={business.createdAt} />],
        [
          'Look at its',
          <span key="links" className="links">
            <PageLink to="/payments" query={query}>
              payments
            </PageLink>
            <PageLink to="/accounts" query={query}>
              accounts
            </PageLink>
            <PageLink to="/webhooks" query={query}>
              webhooks
            </PageLink>
            <PageLink to="/access" query={{ ...query, show: 'audit' }}>
              audit log
            </PageLink>
          </span>,
        ],
      ]}
    />
  )
}

function EditBusiness({ business }: { readonly business: Business }) {
  const { id } = business
  return (
    <Action
      method={BusinessService.method.updateBusiness}
      label="Edit"
      target={id}
      says="Takes effect within a second. Open accounts keep the names that they were opened with."
      request={(_reason, form) => ({
        businessId: id,
        name: form.text('name'),
        alias: form.text('alias'),
        rateLimitPerSecond: form.whole('rateLimitPerSecond'),
        rateLimitBurst: form.whole('rateLimitBurst'),
      })}
    >
      <TextField name="name" label="Name" required maxLength={100} value={business.name} />
      <TextField
        name="alias"
        label="Prefix of account names"
        required
        maxLength={40}
        value={business.alias}
      />
      <div className="fields">
        <TextField
          name="rateLimitPerSecond"
          label="Requests a second, of each key"
          hint="0: the service's default."
          type="number"
          min={0}
          max={1_000_000}
          value={business.rateLimitPerSecond}
        />
        <TextField
          name="rateLimitBurst"
          label="Requests at once after a pause"
          hint="0: twice that."
          type="number"
          min={0}
          max={60_000_000}
          value={business.rateLimitBurst}
        />
      </div>
    </Action>
  )
}

/** When the payments of a business are settled, and for which fee. */
function SettlementTerms({
  businessId,
  terms,
}: {
  readonly businessId: string
  readonly terms: Terms
}) {
  return (
    <Facts
      facts={[
        ['Settled', scheduleText(terms)],
        ['Fee', feeText(terms)],
        [
          'Settlement',
          <PageLink key="settlement" to="/settlement" query={{ business: businessId }}>
            what falls due, and its terms
          </PageLink>,
        ],
      ]}
    />
  )
}

function scheduleText({ schedule, workingDays, cutOff }: Terms): string {
  const at = `${cutOff || '00:00'} in Lagos`
  if (schedule === Schedule.INSTANT) return 'At once'
  if (schedule === Schedule.DAILY) return `Daily at ${at}`
  return `${workingDays} working ${workingDays === 1 ? 'day' : 'days'} later, at ${at}`
}

function feeText({ feeFlatMinor, feeBasisPoints, feeCapMinor }: Terms): string {
  const parts = [
    ...(feeBasisPoints > 0 ? [`${feeBasisPoints / 100} %`] : []),
    ...(feeFlatMinor > 0n ? [naira(feeFlatMinor)] : []),
  ]
  if (parts.length === 0) return 'None'
  const most = feeCapMinor > 0n ? `, at most ${naira(feeCapMinor)}` : ''
  return `${parts.join(' and ')} of each payment${most}`
}

type RecipientPages = ReturnType<typeof useSplitRecipients>

function useSplitRecipients(businessId: string) {
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

const RECIPIENT_COLUMNS: readonly Column<ApprovedRecipient>[] = [
  { key: 'id', title: 'Business', render: ({ recipientId }) => <Id text={recipientId} /> },
  { key: 'approved', title: 'Approved', render: ({ approvedAt }) => <Time at={approvedAt} /> },
  { key: 'do', title: '', render: (approved) => <RevokeRecipient approved={approved} /> },
]

/** The businesses that this one may divide its payments with. */
function SplitRecipients({
  businessId,
  pages,
}: {
  readonly businessId: string
  readonly pages: RecipientPages
}) {
  const rows = pages.data?.pages.flatMap(({ recipients }) => recipients) ?? []
  return (
    <Section title="Split recipients" actions={<ApproveRecipient businessId={businessId} />}>
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
          columns={RECIPIENT_COLUMNS}
          rows={rows}
          keyOf={({ recipientId }) => recipientId}
        />
      </ListFrame>
    </Section>
  )
}

function ApproveRecipient({ businessId }: { readonly businessId: string }) {
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

function RevokeRecipient({
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

/** `50 a second, 100 at once`. */
export function rateText({ rateLimitPerSecond, rateLimitBurst }: Business): string {
  if (rateLimitPerSecond === 0) return 'Default'
  const burst = rateLimitBurst === 0 ? 2 * rateLimitPerSecond : rateLimitBurst
  return `${count(rateLimitPerSecond)} a second, ${count(burst)} at once`
}
