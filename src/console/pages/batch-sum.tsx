import { amountInWords } from '../../core/amount-in-words.ts'
import { count, naira } from '../format/money.ts'

/** What payouts add up to, to be read once more: in figures and in words. */
export function BatchSum({ amountMinor, payouts }: { amountMinor: bigint; payouts: number }) {
  return (
    <div className="amount-to">
      <strong className="money">{naira(amountMinor)}</strong>
      <span>{amountInWords(amountMinor)}</span>
      <span>{payouts === 1 ? 'in one payout' : `in ${count(payouts)} payouts`}</span>
    </div>
  )
}
