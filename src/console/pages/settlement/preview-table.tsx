import type { PreviewSettlementResponse } from '../../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { count } from '../../format/money.ts'
import { Money, Time } from '../../ui/values.tsx'

/** What a settlement of a business would be. */
export interface BusinessPreview {
  readonly businessId: string
  readonly preview: PreviewSettlementResponse
}

const SUMS = ['grossMinor', 'feesMinor', 'splitsMinor', 'netMinor'] as const

/** Previews of settlements, and their sums if there are several. */
export function PreviewTable({
  previews,
  nameOf,
}: {
  readonly previews: readonly BusinessPreview[]
  readonly nameOf: (businessId: string) => string
}) {
  if (previews.length === 0) return null
  return (
    <div className="table-frame scrolls">
      <table className="table" aria-label="Preview">
        <thead>
          <tr>
            <th scope="col">Business</th>
            <th scope="col">Recorded before</th>
            {['Payments', 'Gross', 'Fees', 'Splits', 'Net'].map((title) => (
              <th key={title} scope="col" className="number">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {previews.map(({ businessId, preview }) => (
            <tr key={businessId}>
              <td>{nameOf(businessId)}</td>
              <td>
                <Time at={preview.cutOffAt} />
              </td>
              <td className="number">{count(preview.transactionCount)}</td>
              {SUMS.map((name) => (
                <td key={name} className="number">
                  <Money minor={preview[name]} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
        {previews.length > 1 && <Sums previews={previews} />}
      </table>
    </div>
  )
}

function Sums({ previews }: { readonly previews: readonly BusinessPreview[] }) {
  const sumOf = (name: (typeof SUMS)[number] | 'transactionCount') =>
    previews.reduce((sum, { preview }) => sum + preview[name], 0n)
  return (
    <tfoot>
      <tr>
        <th scope="row">Together</th>
        <td />
        <td className="number">{count(sumOf('transactionCount'))}</td>
        {SUMS.map((name) => (
          <td key={name} className="number">
            <Money minor={sumOf(name)} />
          </td>
        ))}
      </tr>
    </tfoot>
  )
}
