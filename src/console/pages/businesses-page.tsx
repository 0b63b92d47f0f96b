import { useQuery } from '@connectrpc/connect-query'
import { Redirect, useParams } from 'wouter'
import { AccountService } from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { ApprovedRecipientSchema } from '../../../gen/inflow/account/v1/split_pb.ts'
import { type Business, BusinessSchema } from '../../../gen/inflow/business/v1/business_pb.ts'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import type { BusinessState } from '../../../gen/inflow/overview/v1/figures_pb.ts'
import { OverviewService } from '../../../gen/inflow/overview/v1/overview_service_pb.ts'
import { PayoutService } from '../../../gen/inflow/payout/v1/payout_service_pb.ts'
import { SessionService } from '../../../gen/inflow/session/v1/session_service_pb.ts'
import { SettlementService } from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { count } from '../format/money.ts'
import { useAllowedQuery, useMay, useOnlyBusiness } from '../session/session.tsx'
import { useHref, useShowObject, useUrlState, useViewScope } from '../session/view-scope.tsx'
import { Action } from '../ui/action.tsx'
import { columnsOf, MessageFacts } from '../ui/columns.tsx'
import { FilterBar, TextFilter } from '../ui/filters.tsx'
import { List, usePagedList } from '../ui/list.tsx'
import { Empty, Facts, Failure, Loaded, Page, Section } from '../ui/page.tsx'
import { Figure, Id, Money, PageLink } from '../ui/values.tsx'
import { HASHED, Keys, PortalLinks, useKeys, usePortalLinks } from './credentials.tsx'
import { PausePayouts } from './payout-controls-page.tsx'
import { Beneficiaries, PayoutRules } from './payout-rules.tsx'
import { termsFacts } from './settlement-terms.tsx'

const METHODS = BusinessService.method

/** The businesses that the caller may see; if there is only one, its page. */
export function BusinessesPage() {
  const only = useOnlyBusiness()
  const href = useHref()
  if (only !== undefined) return <Redirect to={href(`/businesses/${only}`)} replace />
  return (
    <Page title="Businesses" actions={<CreateBusiness />} isWide>
      <FilterBar>
        <TextFilter name="find" label="Name, alias or id" />
      </FilterBar>
      <BusinessList />
    </Page>
  )
}

function BusinessList() {
  const [query] = useUrlState('find')
  const request = { query, pageSize: query === '' ? 50 : 200 }
  const businesses = usePagedList(METHODS.listBusinesses, 'businesses', request)
  return (
    <List
      label="Businesses"
      columns={COLUMNS}
      of={businesses}
      hrefOf={({ id }, href) => href(`/businesses/${id}`)}
      empty={
        query === '' ? (
          <Empty title="No businesses" command="inflow business create --name 'Ada Stores'">
            A business opens accounts for its customers, and receives events about their payments.
          </Empty>
        ) : (
          <Empty title="No business begins with this text">
            The name, the alias and the id are compared from their beginning.
          </Empty>
        )
      }
    />
  )
}

/** `50 a second, 100 at once`. */
function rateText({ rateLimitPerSecond, rateLimitBurst }: Business): string {
  if (rateLimitPerSecond === 0) return 'Default'
  const burst = rateLimitBurst === 0 ? 2 * rateLimitPerSecond : rateLimitBurst
  return `${count(rateLimitPerSecond)} a second, ${count(burst)} at once`
}

const COLUMNS = columnsOf(BusinessSchema, [
  'name',
  'alias',
  ['Rate limit of each key', rateText],
  'createdAt',
  ['Id', ({ id }) => <Id text={id} charsMax={32} />],
])

function CreateBusiness() {
  return (
    <Action
      method={METHODS.createBusiness}
      label="Create business"
      kind="primary"
      icon="plus"
      target={({ business }) => business?.id ?? ''}
      says="Creates a business, and its first secret key for live mode."
      request={{}}
      fields={{ name: '', alias: { hint: 'Empty: the name, shortened.' } }}
      result={({ business }) =>
        business && (
          <p>
            Created <PageLink to={`/businesses/${business.id}`}>{business.name}</PageLink>. It calls
            the API with this secret key:
          </p>
        )
      }
      secret={({ secretKey }) => secretKey}
      secretNote={HASHED}
    />
  )
}

/** One business: its limits, terms, keys, links, and approved recipients of splits. */
export function BusinessPage() {
  const { id = '' } = useParams()
  const may = useMay()
  const read = useQuery(METHODS.getBusiness, { businessId: id })
  // All data of the page are requested at once.
  const terms = useAllowedQuery(SettlementService.method.getSettlementTerms, { businessId: id })
  const keys = useKeys(id)
  // In a portal, the links have a page of their own.
  const isPortal = useOnlyBusiness() !== undefined
  const links = usePortalLinks(id)
  const recipients = useRecipients(id)
  const business = read.data?.business
  useShowObject(business && { businessId: id })
  if (!business) {
    return (
      <Page title="Business">
        <Loaded read={read} />
      </Page>
    )
  }
  return (
    <Page
      title={isPortal ? 'API keys' : business.name}
      actions={
        <>
          <PausePayouts businessId={id} />
          <EditBusiness business={business} />
        </>
      }
    >
      <div className="fact-columns">
        <BusinessFacts business={business} />
        {terms.data?.terms && (
          <Facts
            facts={[
              ...termsFacts(terms.data.terms),
              [
                'Settlement',
                <PageLink key="settlement" to="/settlement" query={{ business: id }}>
                  what falls due, and its terms
                </PageLink>,
              ],
            ]}
          />
        )}
      </div>
      {!isPortal && <BusinessFigures businessId={id} />}
      <Keys businessId={id} keys={keys} />
      {!isPortal && may(SessionService.method.listPortalLinks) && (
        <PortalLinks businessId={id} links={links} />
      )}
      {!isPortal && may(PayoutService.method.getPayoutPolicy) && (
        <>
          <PayoutRules businessId={id} title="Payout rules" />
          <Beneficiaries businessId={id} />
        </>
      )}
      {may(AccountService.method.listSplitRecipients) && (
        <SplitRecipients businessId={id} recipients={recipients} />
      )}
    </Page>
  )
}

function useRecipients(businessId: string) {
  const { listSplitRecipients } = AccountService.method
  const enabled = useMay()(listSplitRecipients)
  const request = { businessId, pageSize: 20 }
  return usePagedList(listSplitRecipients, 'recipients', request, { enabled })
}

interface RecipientsProps {
  readonly businessId: string
  readonly recipients: ReturnType<typeof useRecipients>
}

function SplitRecipients({ businessId, recipients }: RecipientsProps) {
  return (
    <Section title="Split recipients" actions={<ApproveRecipient businessId={businessId} />}>
      <List
        label="Split recipients"
        columns={RECIPIENT_COLUMNS}
        of={recipients}
        keyOf={({ recipientId }) => recipientId}
        empty={
          <Empty
            title="No recipients"
            command={`inflow recipient approve biz_… --business ${businessId}`}
          >
            The business may divide its payments only with businesses that an operator has approved.
          </Empty>
        }
      />
    </Section>
  )
}

function BusinessFacts({ business }: { readonly business: Business }) {
  const query = { business: business.id }
  return (
    <MessageFacts
      schema={BusinessSchema}
      of={business}
      facts={[
        'id',
        ['Prefix of names', 'alias'],
        ['Rate limit', rateText],
        'createdAt',
        [
          'Look at its',
          () => (
            <span className="links">
              {['payments', 'payouts', 'accounts', 'webhooks', 'requests'].map((page) => (
                <PageLink key={page} to={`/${page}`} query={query}>
                  {page}
                </PageLink>
              ))}
              <PageLink to="/access" query={{ ...query, show: 'audit' }}>
                audit log
              </PageLink>
            </span>
          ),
        ],
      ]}
    />
  )
}

function EditBusiness({ business }: { readonly business: Business }) {
  const { id } = business
  return (
    <Action
      method={METHODS.updateBusiness}
      label="Edit"
      target={id}
      says="Takes effect within a second. Open accounts keep the names that they were opened with."
      request={{ businessId: id }}
      values={business}
      fields={[
        { name: { required: true } },
        { alias: { required: true } },
        {
          rateLimitPerSecond: {
            label: 'Requests a second, of each key',
            hint: "0: the service's default.",
          },
          rateLimitBurst: { label: 'Requests at once after a pause', hint: '0: twice that.' },
        },
      ]}
    />
  )
}

/** The figures of a business in the shown mode: its balance, the last 24 hours, and the health of its endpoints. */
function BusinessFigures({ businessId }: { readonly businessId: string }) {
  const { live } = useViewScope()
  const request = { businessId, test: !live }
  const { data, error } = useAllowedQuery(OverviewService.method.getOverview, request)
  const { total, business } = data ?? {}
  const { getBalance } = SettlementService.method
  const { balance } = useAllowedQuery(getBalance, request).data ?? {}
  const link = (to: string, text: string) => (
    <PageLink to={to} query={{ business: businessId }}>
      {text}
    </PageLink>
  )
  return (
    <Section title={`In ${live ? 'live' : 'test'} mode`}>
      {error !== null && <Failure error={error} />}
      <ul className="figures">
        {business && (
          <>
            <Figure title="Available" note="settled, less fees, reversals and payouts">
              <Money minor={business.availableMinor} />
            </Figure>
            <Figure title="Pending" note="received and not settled yet">
              <Money minor={business.pendingMinor} />
            </Figure>
            {balance && (
              <Figure title={link('/payouts', 'Reserved')} note="for payouts that are not final">
                <Money minor={balance.reservedMinor} />
              </Figure>
            )}
          </>
        )}
        {total && (
          <>
            <Figure
              title={link('/payments', 'Payments')}
              note={`of the last 24 hours, ${count(total.payments)} in number, held ones included`}
            >
              <Money minor={total.amountMinor} />
            </Figure>
            <Figure
              title={link('/webhooks', 'Failed attempts')}
              note={`of ${count(total.attempts)} at its endpoints in the last 24 hours; ${count(total.failed)} deliveries failed for good`}
            >
              {count(total.attempts - total.delivered)}
            </Figure>
          </>
        )}
        {business && (
          <Figure title={link('/webhooks', 'Healthy endpoints')} note={faultsOf(business)}>
            {count(business.endpoints - business.failingEndpoints - business.disabledEndpoints)} of{' '}
            {count(business.endpoints)}
          </Figure>
        )}
      </ul>
    </Section>
  )
}

/** Describes problems of a business's endpoints. */
function faultsOf({ endpoints, failingEndpoints, disabledEndpoints }: BusinessState): string {
  if (endpoints === 0) return 'there are none'
  const faults = [
    failingEndpoints > 0 && `${count(failingEndpoints)} failing`,
    disabledEndpoints > 0 && `${count(disabledEndpoints)} disabled`,
  ].filter((text) => text !== false)
  return faults.join(', ') || 'all of them work'
}

const RECIPIENT_COLUMNS = columnsOf(ApprovedRecipientSchema, [
  ['Business', 'recipientId'],
  'approvedAt',
  [
    '',
    ({ businessId, recipientId }) => (
      <Action
        method={AccountService.method.revokeSplitRecipient}
        label="Revoke"
        kind="danger"
        target={recipientId}
        says="No further split may name it. Splits that name it stay until they are changed."
        request={{ businessId, recipientId }}
      />
    ),
  ],
])

function ApproveRecipient({ businessId }: { readonly businessId: string }) {
  return (
    <Action
      method={AccountService.method.approveSplitRecipient}
      label="Approve a recipient"
      icon="plus"
      says="The business may divide the payments into any of its accounts with it, up to all of each payment."
      request={{ businessId }}
      fields={{ recipientId: { placeholder: 'biz_…' } }}
      target={({ recipient }) => recipient?.recipientId ?? ''}
    />
  )
}
