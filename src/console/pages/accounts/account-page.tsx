import { useQuery } from '@connectrpc/connect-query'
import { useParams } from 'wouter'
import { type Account, AccountStatus } from '../../../../gen/inflow/account/v1/account_pb.ts'
import { AccountService } from '../../../../gen/inflow/account/v1/account_service_pb.ts'
import { useShowObject } from '../../session/shown-object.tsx'
import { Action } from '../../ui/controls/action.tsx'
import { Failure } from '../../ui/lists/failure.tsx'
import { Waiting } from '../../ui/lists/waiting.tsx'
import { Page, Section } from '../../ui/page.tsx'
import { Status } from '../../ui/status.tsx'
import { AccountFacts, SplitFacts, TermsFacts } from './account-facts.tsx'
import { AccountPayments, type Payments, usePayments } from './account-payments.tsx'
import { openingOf, stateOfAccount } from './account-words.ts'
import { ResolveOpening } from './resolve-opening.tsx'
import { SetSplit } from './set-split.tsx'
import '../../styles/accounts.css'

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
