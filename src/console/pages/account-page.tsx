import '../styles/accounts.css'
import { useQuery } from '@connectrpc/connect-query'
import { useState } from 'react'
import { useParams } from 'wouter'
import { type Account, AccountStatus } from '../../../gen/inflow/account/v1/account_pb.ts'
import { AccountService } from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { FeeBearer, type Split } from '../../../gen/inflow/account/v1/split_pb.ts'
import { useBusinessNames } from '../session/business-names.ts'
import { useShowObject } from '../session/view-scope.tsx'
import { Action } from '../ui/action.tsx'
import { Button } from '../ui/button.tsx'
import { SelectField, TextField } from '../ui/form.tsx'
import { Facts, Failure, Page, Section, Waiting } from '../ui/page.tsx'
import { Id, PageLink, Status, Time } from '../ui/values.tsx'
import { AccountPayments, type Payments, usePayments } from './account-payments.tsx'
import { RECIPIENTS_MAX, readShare, readSplit } from './account-request.ts'
import { expectedText, openingOf, payerText, shareText, stateOfAccount } from './account-words.ts'
import { ResolveOpening } from './resolve-opening.tsx'

export function AccountPage() {
  const { business = '', reference = '' } = useParams()
  const read = useQuery(AccountService.method.getAccount, { businessId: business, reference })
  const payments = usePayments(business, reference)
  const account = read.data?.account
  useShowObject(account)
  if (account) return <Shown account={account} payments={payments} />
  return (
    <Page title="Account">
      {read.error ? (
        <Failure error={read.error} onRetry={() => void read.refetch()} />
      ) : (
        <Waiting rows={12} />
      )}
    </Page>
  )
}

function Shown({ account, payments }: { readonly account: Account; readonly payments: Payments }) {
  const { accountNumber, merchantReference, opening } = account
  const { tone, label } = stateOfAccount(account)
  const isOpen = account.status === AccountStatus.ACTIVE
  return (
    <Page
      title={accountNumber === '' ? merchantReference : accountNumber}
      actions={
        <>
          {opening ? <ResolveOpening account={account} /> : <SetSplit account={account} />}
          {isOpen && <CloseAccount account={account} />}
        </>
      }
    >
      <p className="state-line">
        <Status tone={tone}>{label}</Status>
        {account.simulated && account.live && <Status tone="neutral">Simulated</Status>}
        <Status tone="neutral">{account.live ? 'Live' : 'Test'}</Status>
        {account.importedAt && (
          <Status tone={account.bankConfirmed ? 'neutral' : 'waiting'}>
            {account.bankConfirmed ? 'Imported' : 'Imported, not yet confirmed by the bank'}
          </Status>
        )}
        {opening && <span>{openingOf(opening.state)?.says}</span>}
      </p>
      {opening?.cause && <p className="fault">{opening.cause}</p>}
      <div className="fact-columns">
        <AccountFacts account={account} />
        <TermsFacts account={account} />
        <SplitFacts account={account} />
      </div>
      <Section title="Payments">
        <AccountPayments payments={payments} account={account} />
      </Section>
    </Page>
  )
}

function CloseAccount({ account: { id, businessId, reference } }: { readonly account: Account }) {
  return (
    <Action
      method={AccountService.method.closeAccount}
      label="Close"
      kind="danger"
      target={id}
      says="It is closed at the bank too, if the bank supports that. Later payments into it are recorded as unmatched. It cannot be opened again."
      request={() => ({ businessId, reference })}
      onClosed={() => {}}
    />
  )
}

interface Props {
  readonly account: Account
}

function AccountFacts({ account }: Props) {
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
function TermsFacts({ account: { terms, metadata } }: Props) {
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
function SplitFacts({ account: { split, businessId } }: Props) {
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

/** Divides what is paid into an account from now on. */
function SetSplit({ account }: { readonly account: Account }) {
  const { id, businessId, reference, split } = account
  return (
    <Action
      method={AccountService.method.setAccountSplit}
      label="Set split"
      target={id}
      says="Divides the payments that are recorded from now on. The shares are taken in this order, and the business keeps the rest. Without rows it keeps everything."
      request={(_reason, form) => ({ businessId, reference, split: readSplit(form) })}
    >
      <SplitFields split={split} />
    </Action>
  )
}

const BEARERS = [
  { value: 'owner', label: 'The business' },
  { value: 'shared', label: 'All, in proportion to their shares' },
]

function SplitFields({ split }: { readonly split: Split | undefined }) {
  const recipients = split?.recipients ?? []
  const [rows, setRows] = useState(Math.max(1, recipients.length))
  return (
    <>
      {Array.from({ length: rows }, (_, index) => {
        const recipient = recipients[index]
        return (
          // biome-ignore lint/suspicious/noArrayIndexKey: rows are only added at the end
          <div className="fields" key={index}>
            <TextField
              name={`split.recipients[${index}].businessId`}
              label={`Business ${index + 1}`}
              placeholder="biz_…"
              maxLength={60}
              value={recipient?.businessId ?? ''}
            />
            <TextField
              name={`split.recipients[${index}].basisPoints`}
              label="Share"
              placeholder="12.5% or 500.00"
              value={recipient ? shareText(recipient) : ''}
              check={(text) =>
                readShare(text) ? undefined : 'A percentage such as 12.5%, or an amount of naira'
              }
            />
          </div>
        )
      })}
      {rows < RECIPIENTS_MAX && (
        <Button icon="plus" onClick={() => setRows(rows + 1)}>
          Another business
        </Button>
      )}
      <SelectField
        name="split.feeBearer"
        label="Who bears the fee"
        choices={BEARERS}
        value={split?.feeBearer === FeeBearer.SHARED ? 'shared' : 'owner'}
      />
    </>
  )
}
