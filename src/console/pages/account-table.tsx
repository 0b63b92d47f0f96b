import type { Account } from '../../../gen/inflow/account/v1/account_pb.ts'
import { useBusinessNames } from '../session/business-names.ts'
import { useHref, useViewScope } from '../session/view-scope.tsx'
import { type Column, Table } from '../ui/list.tsx'
import { Id, Status, Time } from '../ui/values.tsx'
import { expectedText, openingOf, stateOfAccount } from './account-words.ts'

/** A list of accounts. @param showsOpening why they are pending has a column of its own */
export function AccountTable({
  accounts,
  showsOpening = false,
}: {
  readonly accounts: readonly Account[]
  readonly showsOpening?: boolean
}) {
  const { businessId } = useViewScope()
  const href = useHref()
  const isOne = businessId !== ''
  const nameOf = useBusinessNames(isOne ? [] : accounts.map((account) => account.businessId))
  const business: Column<Account> = {
    key: 'business',
    title: 'Business',
    render: (account) => nameOf(account.businessId),
  }
  return (
    <Table
      label="Accounts"
      columns={[
        NUMBER,
        ...(isOne ? [] : [business]),
        ...COLUMNS,
        ...(showsOpening ? [OPENING, CAUSE] : []),
        ...EXTRAS,
      ]}
      rows={accounts}
      keyOf={({ id }) => id}
      hrefOf={(account) => href(pathOfAccount(account))}
    />
  )
}

export function pathOfAccount({ businessId, reference }: Account): string {
  return `/accounts/${businessId}/${reference}`
}

const NUMBER: Column<Account> = {
  key: 'number',
  title: 'Account',
  render: ({ accountNumber }) =>
    accountNumber === '' ? (
      <span className="faint">Not open yet</span>
    ) : (
      <code>{accountNumber}</code>
    ),
}

const COLUMNS: readonly Column<Account>[] = [
  { key: 'bank', title: 'Bank', render: ({ bankName }) => bankName },
  {
    key: 'status',
    title: 'Status',
    render: (account) => {
      const { tone, label } = stateOfAccount(account)
      return <Status tone={tone}>{label}</Status>
    },
  },
  {
    key: 'customer',
    title: 'Customer',
    render: ({ customer }) => customer && `${customer.firstName} ${customer.lastName}`,
  },
  {
    key: 'own',
    title: 'Own reference',
    render: ({ merchantReference }) => <Id text={merchantReference} charsMax={24} />,
  },
  {
    key: 'terms',
    title: 'Expects',
    render: ({ terms }) => terms && expectedText(terms),
  },
  { key: 'created', title: 'Created', render: ({ createdAt }) => <Time at={createdAt} /> },
]

const OPENING: Column<Account> = {
  key: 'opening',
  title: 'Opening',
  render: ({ opening }) => openingOf(opening?.state)?.label,
}

export const CAUSE: Column<Account> = {
  key: 'cause',
  title: 'Cause',
  render: ({ opening }) => <span className="cause">{opening?.cause}</span>,
}

const EXTRAS: readonly Column<Account>[] = [
  { key: 'name', title: 'Name', render: ({ accountName }) => accountName, isExtra: true },
  {
    key: 'reference',
    title: 'Reference',
    render: ({ reference }) => <Id text={reference} charsMax={24} />,
    isExtra: true,
  },
  { key: 'email', title: 'E-mail', render: ({ customer }) => customer?.email, isExtra: true },
  { key: 'phone', title: 'Phone', render: ({ customer }) => customer?.phone, isExtra: true },
  { key: 'id', title: 'Id', render: ({ id }) => <Id text={id} />, isExtra: true },
]
