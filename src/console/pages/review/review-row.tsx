import { useId } from 'react'
import type { ReviewItem } from '../../../../gen/inflow/overview/v1/review_pb.ts'
import { useBusinessName } from '../../app/business-switcher.tsx'
import { bankName } from '../../format/banks.ts'
import { useViewScope } from '../../session/view-scope.ts'
import { Icon } from '../../ui/icons.tsx'
import { Money, Time } from '../../ui/values.tsx'
import { ItemActions } from './item-actions.tsx'
import { ItemDetails } from './item-details.tsx'
import { kindName } from './kinds.ts'

/** One item: what is known in a line, and, when it is open, all of it with the actions that can end it. */
export function ReviewRow({
  item,
  isOpen,
  onToggle,
  onDecided,
}: {
  readonly item: ReviewItem
  readonly isOpen: boolean
  readonly onToggle: () => void
  readonly onDecided: () => void
}) {
  const id = useId()
  return (
    <li className={isOpen ? 'review-item open' : 'review-item'}>
      <button
        type="button"
        className="review-head"
        aria-expanded={isOpen}
        aria-controls={isOpen ? id : undefined}
        onClick={onToggle}
      >
        <Icon name={isOpen ? 'down' : 'right'} size={12} />
        <span className="review-kind">{kindName(item.kind)}</span>
        <span className="review-text">{item.text}</span>
        <span className="review-amount">
          {item.amountMinor > 0n && <Money minor={item.amountMinor} />}
        </span>
        <span className="faint">
          <Time at={item.since} />
        </span>
      </button>
      {isOpen && (
        <div className="review-body" id={id}>
          <Where item={item} />
          <ItemDetails item={item} />
          <ItemActions item={item} onDecided={onDecided} />
        </div>
      )}
    </li>
  )
}

/** Whose it is, and at which bank. */
function Where({ item: { businessId, bank } }: { readonly item: ReviewItem }) {
  const shown = useViewScope().businessId
  const name = useBusinessName(shown === businessId ? '' : businessId)
  const parts = [name, bank === 0 ? '' : bankName(bank)].filter((part) => part !== '')
  return parts.length > 0 ? <p className="soft">{parts.join(' · ')}</p> : null
}
