import { type ReactNode, useMemo } from 'react'
import type { ReviewItem } from '../../../../gen/inflow/overview/v1/review_pb.ts'
import { ReviewKind } from '../../../../gen/inflow/overview/v1/review_pb.ts'
import { useMay } from '../../session/session.tsx'
import { PageLink } from '../../ui/href.tsx'
import { DECISIONS } from './decisions.tsx'

/** The actions that can end an item, of those that the caller may take, each with its key. */
export function ItemActions({
  item,
  onDecided,
}: {
  readonly item: ReviewItem
  readonly onDecided: () => void
}) {
  const may = useMay()
  const decisions = useMemo(
    () =>
      DECISIONS.filter(({ method }) =>
        item.actions.includes(`${method.parent.typeName}/${method.name}`),
      ),
    [item],
  )
  const allowed = decisions.filter(({ method }) => may(method))
  const link = linkOf(item)
  return (
    <div className="review-actions">
      {allowed.map(({ key, label, Button }) => (
        <Keyed key={label} letter={link === undefined ? key : undefined}>
          <Button item={item} onDecided={onDecided} />
        </Keyed>
      ))}
      {link && <Keyed letter="a">{link}</Keyed>}
      {allowed.length === 0 && link === undefined && (
        <p className="faint">Your token may look at it; an operator decides.</p>
      )}
    </div>
  )
}

function Keyed({
  letter,
  children,
}: {
  readonly letter: string | undefined
  readonly children: ReactNode
}) {
  return (
    <span className="keyed" data-key={letter}>
      {children}
      {letter !== undefined && <kbd>{letter}</kbd>}
    </span>
  )
}

/** The page where an item that is not decided here is mended. */
function linkOf({ kind, id, businessId }: ReviewItem): ReactNode {
  if (kind === ReviewKind.ENDPOINT) {
    return (
      <PageLink to={`/webhooks/${id}`} className="button primary">
        Open the endpoint
      </PageLink>
    )
  }
  if (kind !== ReviewKind.SETTLEMENT) return undefined
  return (
    <PageLink to="/settlement" query={{ business: businessId }} className="button primary">
      Open settlement
    </PageLink>
  )
}
