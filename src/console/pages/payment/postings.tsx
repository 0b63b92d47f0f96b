import type { Posting } from '../../../../gen/inflow/overview/v1/timeline_pb.ts'
import { words } from '../../format/ids.ts'
import { naira } from '../../format/money.ts'

/** The movements of the money as debits and credits, whose sums are equal. */
export function Postings({ postings }: { readonly postings: readonly Posting[] }) {
  if (postings.length === 0) {
    return <p className="faint">No money has moved.</p>
  }
  const sum = postings.reduce((total, { amountMinor }) => total + amountMinor, 0n)
  return (
    <table className="postings" aria-label="Ledger postings">
      <thead>
        <tr>
          <th scope="col">Ledger account</th>
          <th scope="col" className="number">
            Debit
          </th>
          <th scope="col" className="number">
            Credit
          </th>
        </tr>
      </thead>
      {postings.map((posting, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: postings have no id, and are only added
        <tbody key={index}>
          <PostingRows posting={posting} first={postings[0]} />
        </tbody>
      ))}
      <tfoot>
        <tr>
          <th scope="row">Sum</th>
          <td className="number">{naira(sum)}</td>
          <td className="number">{naira(sum)}</td>
        </tr>
      </tfoot>
    </table>
  )
}

function PostingRows({
  posting: { kind, businessId, debitAccount, creditAccount, amountMinor },
  first,
}: {
  readonly posting: Posting
  readonly first: Posting | undefined
}) {
  const isOther = businessId !== first?.businessId
  return (
    <>
      <tr className="posting-kind">
        <th scope="rowgroup" colSpan={3}>
          {words(kind)}
          {isOther && <code> {businessId}</code>}
        </th>
      </tr>
      <tr>
        <td>{debitAccount}</td>
        <td className="number">{naira(amountMinor)}</td>
        <td />
      </tr>
      <tr>
        <td>{creditAccount}</td>
        <td />
        <td className="number">{naira(amountMinor)}</td>
      </tr>
    </>
  )
}
