import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import { findBusiness } from '../businesses/get-business.ts'
import { bindValues } from '../postgres/bind-values.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import { cutPage, readPage } from '../postgres/page-token.ts'
import { queryableOf } from '../postgres/queries-of.ts'
import { PayoutPauseEntity } from './payout.entity.ts'
import type { Pause, PauseTarget } from './payout.ts'
import { type PayoutContext, requesterOf } from './reserve-payout.ts'

/**
 * Stops payouts. Every instance reads the pauses with each claim, so nothing is sent after the commit but what was
 * claimed before. A repeat keeps the first reason.
 *
 * @throws Fault not_found (the business)
 */
export function pausePayouts(
  { database, clock }: PayoutContext,
  { scope, target, reason }: PauseTarget & { readonly reason: string },
  actor: Actor,
): Promise<Pause> {
  const nowMs = clock.now()
  return database.orm.em.fork().transactional(async (em) => {
    if (scope === 'BUSINESS') await findBusiness(em, target)
    const row = { scope, target, reason, pausedBy: requesterOf(actor), pausedAt: new Date(nowMs) }
    const before = await em.findOne(PayoutPauseEntity, { scope, target })
    const stored =
      before ??
      (await em.upsert(PayoutPauseEntity, row, {
        onConflictFields: ['scope', 'target'],
        onConflictAction: 'ignore',
      }))
    if (before === null) {
      await appendAudit(em, actor, {
        action: 'payouts.pause',
        targetId: `${scope}:${target}`,
        businessId: scope === 'BUSINESS' ? target : undefined,
        details: { before: 'running', after: 'paused', reason },
      })
    }
    return {
      ...row,
      reason: stored.reason,
      pausedBy: stored.pausedBy,
      pausedAtMs: stored.pausedAt.getTime(),
    }
  })
}

/** Ends a pause; payouts that waited for it are sent at once. A repeat changes nothing. */
export async function resumePayouts(
  { database, wake }: PayoutContext,
  { scope, target, reason }: PauseTarget & { readonly reason: string },
  actor: Actor,
): Promise<void> {
  await database.orm.em.fork().transactional(async (em) => {
    const ended = await em.nativeDelete(PayoutPauseEntity, { scope, target })
    if (ended === 0) return
    await queryableOf(em).query(
      `update payout set next_at = now() where status = 'APPROVED' and completed_at is null and next_at > now()
        and ($1 <> 'BUSINESS' or business_id = $2)`,
      [scope, target],
    )
    await appendAudit(em, actor, {
      action: 'payouts.resume',
      targetId: `${scope}:${target}`,
      businessId: scope === 'BUSINESS' ? target : undefined,
      details: { before: 'paused', after: 'running', reason },
    })
  })
  wake()
}

/**
 * One page of what is paused, the last first.
 *
 * @param businessIds of whose pauses to list, beside those of everything and of banks; undefined: of all
 * @throws Fault validation_failed (the page token)
 */
export async function listPauses(
  on: Queryable,
  request: {
    readonly businessIds: readonly string[] | undefined
    readonly pageSize: number
    readonly pageToken: string
  },
) {
  const page = readPage(request.pageSize, request.pageToken, 3)
  const [atMs, scope, target] = page.after ?? []
  const { values, bind } = bindValues(page.limit + 1)
  const after =
    page.after && `(to_timestamp(${bind(atMs)}::float8 / 1000), ${bind(scope)}, ${bind(target)})`
  const whose =
    request.businessIds &&
    `(scope in ('GLOBAL', 'BANK') or scope = 'BUSINESS' and target = any(${bind(request.businessIds)}::text[]))`
  const conditions = [
    ...(after === undefined ? [] : [`(paused_at, scope, target) < ${after}`]),
    ...(whose === undefined ? [] : [whose]),
  ]
  const { rows } = await on.query<Omit<Pause, 'pausedAtMs'> & { readonly pausedAtMs: number }>(
    `select scope, target, reason, paused_by as "pausedBy",
        round(date_part('epoch', paused_at) * 1000) as "pausedAtMs"
      from payout_pause where ${conditions.join(' and ') || 'true'}
      order by paused_at desc, scope desc, target desc limit $1`,
    values,
  )
  return cutPage(rows, page, (pause) => [`${pause.pausedAtMs}`, pause.scope, pause.target])
}
