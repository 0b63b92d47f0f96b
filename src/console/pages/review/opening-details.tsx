import { useQuery } from '@connectrpc/connect-query'
import { OpeningState } from '../../../../gen/inflow/account/v1/account_pb.ts'
import { AccountService } from '../../../../gen/inflow/account/v1/account_service_pb.ts'
import type { ReviewItem } from '../../../../gen/inflow/overview/v1/review_pb.ts'
import { bankName } from '../../format/banks.ts'
import { enumWords } from '../../format/ids.ts'
import { PageLink } from '../../ui/href.tsx'
import { Failure } from '../../ui/lists/failure.tsx'
import { Waiting } from '../../ui/lists/waiting.tsx'
import { Facts } from '../../ui/page.tsx'
import { Time } from '../../ui/values.tsx'

/** An account that the bank may or may not have opened. */
export function OpeningDetails({ item: { businessId, id } }: { readonly item: ReviewItem }) {
  const read = useQuery(AccountService.method.getAccount, { businessId, reference: id })
  const { account } = read.data ?? {}
  if (read.error) return <Failure error={read.error} />
  if (account === undefined) return <Waiting rows={3} />
  const { customer, opening } = account
  return (
    <>
      <Facts
        facts={[
          ['Cause', opening?.cause],
          ['State', enumWords(OpeningState, opening?.state ?? 0)],
          ['Attempts', opening && `${opening.attempts}`],
          ['Customer', `${customer?.firstName} ${customer?.lastName}`],
          ['E-mail', customer?.email],
          ['Bank', bankName(account.bank)],
          ['Requested', <Time key="created" at={account.createdAt} />],
        ]}
      />
      <p>
        <PageLink to={`/accounts/${businessId}/${id}`}>The account</PageLink>{' '}
        <span className="faint">Look for the customer at the bank before you decide.</span>
      </p>
    </>
  )
}
