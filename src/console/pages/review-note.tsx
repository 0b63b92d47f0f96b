import { useMutation } from '@connectrpc/connect-query'
import { useQueryClient } from '@tanstack/react-query'
import { OverviewService } from '../../../gen/inflow/overview/v1/overview_service_pb.ts'
import type { ReviewItem } from '../../../gen/inflow/overview/v1/review_pb.ts'
import type { Choice } from '../format/enums.ts'
import { useMay, useRestricted, useSession } from '../session/session.tsx'
import { Action } from '../ui/action.tsx'
import { Button } from '../ui/button.tsx'
import { Failure } from '../ui/page.tsx'
import { Time } from '../ui/values.tsx'
import { Keyed } from './review-actions.tsx'

const { updateReviewItem } = OverviewService.method

/** The choices of a filter by assignee. */
export const ASSIGNEES: readonly Choice[] = [
  { value: 'mine', label: 'Mine' },
  { value: 'none', label: 'Unassigned' },
]

/** The filter of items by assignee: `mine`, `none`, or any other choice for all items. */
export function useAssigned(choice: string): (item: ReviewItem) => boolean {
  const own = useAssigneeName()
  if (choice === 'mine') return ({ assignee }) => assignee === own
  return ({ assignee }) => choice !== 'none' || assignee === ''
}

/** The longest name of an assignee, in characters. */
const NAME_MAX = 100

/** The name under which the viewer takes items. */
function useAssigneeName(): string {
  const { name, id } = useSession()
  return (name || id).slice(0, NAME_MAX)
}

/** The assignee of an item and the beginning of its note, in the row of the item. */
export function NoteLine({ item: { assignee, note } }: { readonly item: ReviewItem }) {
  if (assignee === '' && note === '') return null
  return (
    <span className="review-note" title={note}>
      {assignee !== '' && <strong>{assignee}</strong>}
      {assignee !== '' && note !== '' && ': '}
      {note}
    </span>
  )
}

/** The assignee and note of an open item, with the actions that change them. */
export function ItemNote({ item }: { readonly item: ReviewItem }) {
  const { assignee, note, notedAt, notedBy } = item
  if (useRestricted()) return null
  return (
    <section className="review-actions" aria-label="Assignee and note">
      <p>
        {assignee === '' ? 'Unassigned' : `Taken by ${assignee}`}
        {note !== '' && `: “${note}”`}{' '}
        {notedAt && (
          <span className="faint">
            Changed by {notedBy} <Time at={notedAt} />
          </span>
        )}
      </p>
      <Take item={item} />
      <Action
        method={updateReviewItem}
        label="Hand over or note"
        says="The item keeps waiting. All operators see the assignee and the note; businesses do not."
        request={requestOf(item)}
        fields={{ assignee: 'Assignee', note: { label: 'Note', rows: 3 } }}
        values={item}
        target={item.id}
      />
    </section>
  )
}

const requestOf = ({ id: itemId, kind, live }: ReviewItem) => ({ itemId, kind, live })

/** Takes the item, or releases it if the viewer has it. */
function Take({ item }: { readonly item: ReviewItem }) {
  const own = useAssigneeName()
  const mayUpdate = useMay()(updateReviewItem)
  const queries = useQueryClient()
  const update = useMutation(updateReviewItem, { onSuccess: () => queries.invalidateQueries() })
  if (!mayUpdate) return null
  const isOwn = item.assignee === own
  const label = item.assignee === '' ? 'Take' : 'Take over'
  return (
    <>
      <Keyed letter="t">
        <Button
          busy={update.isPending}
          onClick={() => update.mutate({ ...requestOf(item), assignee: isOwn ? '' : own })}
        >
          {isOwn ? 'Release' : label}
        </Button>
      </Keyed>
      {update.error && <Failure error={update.error} />}
    </>
  )
}
