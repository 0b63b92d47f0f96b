import { defineEntity, p } from '@mikro-orm/core'
import type { ReviewKind } from './review-items.ts'

/**
 * Who takes care of an item of the review, and what was noted about it: see `update-review-item.ts`. It refers to no
 * other table: items are rows of several, and a note must never hold up what happens to them.
 */
export const ReviewNoteEntity = defineEntity({
  name: 'ReviewNote',
  tableName: 'review_note',
  properties: {
    kind: p.text().$type<ReviewKind>().primary(),
    itemId: p.text().primary(),
    live: p.boolean().primary(),
    /** Empty: it is unassigned. */
    assignee: p.text(),
    /** Empty: none. */
    note: p.text(),
    notedAt: p.datetime(3),
    /** The name of the caller who changed it last. */
    notedBy: p.text(),
  },
})
