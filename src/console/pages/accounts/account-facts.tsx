import type { Account } from '../../../../gen/inflow/account/v1/account_pb.ts'
import { FeeBearer } from '../../../../gen/inflow/account/v1/split_pb.ts'
import { useBusinessNames } from '../../session/business-names.ts'
import { PageLink } from '../../ui/href.tsx'
import { Facts } from '../../ui/page.tsx'
import { Id, Time } from '../../ui/values.tsx'
import { expectedText, openingOf, payerText, shareText } from './account-words.ts'

interface Props {
  readonly account: Account
}

export function AccountFacts({ account }: Props) {
  const { businessId, customer, opening, accountNumber } = account
  const nameOf = useBusinessNames([businessId])
  return (
    <Facts
      facts={[
        ['Number', accountNumber !== '' && <Id text={accountNumber} />],
        ['Name', account.accountName],
        ['Bank', account.bankName],
        [
          'Business',
          <PageLink key="business" to={`/businesses/${businessId}`}>
            {nameOf(businessId)}
          </PageLink>,
        ],
        ['Own reference', <Id key="own" text={account.merchantReference} charsMax={40} />],
        ['Reference', <Id key="reference" text={account.reference} charsMax={40} />],
        ['Id', <Id key="id" text={account.id} charsMax={40} />],
        ['Customer', customer && `${customer.firstName} ${customer.lastName}`],
        ['E-mail', customer?.email],
        ['Phone', customer?.phone],
        ['Created', <Time key="created" at={account.createdAt} />],
        ['Imported', account.importedAt && <Time key="imported" at={account.importedAt} />],
        ['Opened by', account.simulated ? 'The sandbox: its number is invented' : undefined],
        ['Opening', openingOf(opening?.state)?.label],
        ['Attempts', opening && String(opening.attempts)],
        ['Next try', opening?.nextTryAt && <Time at={opening.nextTryAt} />],
      ]}
    />
  )
}

/** What a one-time account expects, and the business's own data. */
export function TermsFacts({ account: { terms, metadata } }: Props) {
  const pairs = Object.entries(metadata)
  if (!terms && pairs.length === 0) return null
  return (
    <Facts
      facts={[
        ['Expects', terms && expectedText(terms)],
        ['Expires', terms?.expiresAt && <Time at={terms.expiresAt} />],
        ['Use', terms && (terms.singleUse ? 'A single payment' : 'Any number of payments')],
        ['Used up', terms?.usedAt && <Time at={terms.usedAt} />],
        ['Closed by itself', terms?.endedAt && <Time at={terms.endedAt} />],
        ['Who may pay', terms?.allowedPayers.map(payerText).join(', ')],
        ...pairs.map(([key, value]) => [key, value] as const),
      ]}
    />
  )
}

/** How its payments are divided. */
export function SplitFacts({ account: { split, businessId } }: Props) {
  const recipients = split?.recipients ?? []
  const nameOf = useBusinessNames(recipients.map((recipient) => recipient.businessId))
  if (recipients.length === 0) {
    return <Facts facts={[['Split', 'None: the business keeps everything']]} />
  }
  return (
    <Facts
      facts={[
        ...recipients.map(
          (recipient, index) =>
            [
              `Share ${index + 1}`,
              <span key={recipient.businessId}>
                {shareText(recipient)} to{' '}
                <PageLink to={`/businesses/${recipient.businessId}`}>
                  {nameOf(recipient.businessId)}
                </PageLink>
              </span>,
            ] as const,
        ),
        ['The rest', nameOf(businessId) === businessId ? 'The owner' : nameOf(businessId)],
        [
          'Fee',
          split?.feeBearer === FeeBearer.SHARED
            ? 'In proportion to the shares'
            : 'The owner bears it',
        ],
      ]}
    />
  )
}
