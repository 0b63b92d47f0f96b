import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import { findBusiness } from '../businesses/get-business.ts'
import { inTransaction, type Queryable } from '../postgres/in-transaction.ts'
import { cutPage, readPage } from '../postgres/page-token.ts'
import { queryableOf } from '../postgres/queries-of.ts'
import { bindValues } from '../postgres/statement.ts'
import { PayoutPauseEntity } from './payout.entity.ts'
import type { Pause, PauseTarget } from './payout.ts'
import { type PayoutContext, requesterOf } from './reserve-payout.ts'

/**
 * Stops payouts. Every instance reads the pauses with each claim, so after the commit only payouts that were claimed
 * before are still sent. This function waits up to 10 s for claims in progress. After that nothing more is claimed, unless
 * an instance is suspended in the middle of a claim. A repeated pause keeps the first reason.
 *
 * @throws Fault not_found (the business)
 */
export async function pausePayouts(
  context: PayoutContext,
  { scope, target, reason }: PauseTarget & { readonly reason: string },
  actor: Actor,
): Promise<Pause> {
  const { database, clock } = context
  const nowMs = clock.now()
  const pause = await database.orm.em.fork().transactional(async (em) => {
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
  await awaitClaims(context)
  return pause
}

/** How long a pause waits for claims. A claim takes milliseconds, unless its instance is suspended in the middle of it. */
const CLAIMS_MS_MAX = 10_000

/** Waits until every claim that read the pauses before the new pause was committed has ended. */
async function awaitClaims({ database, log }: PayoutContext): Promise<void> {
  await inTransaction(database.durablePool, async (client) => {
    await client.query(`set local lock_timeout = ${CLAIMS_MS_MAX}`)
    await client.query("select pg_advisory_xact_lock(hashtextextended('payout claims', 0))")
  }).catch((error: unknown) => {
    log.warn({ err: error }, 'payouts are paused; a claim that began before has not ended yet')
  })
}

/** Ends a pause and makes the payouts that waited for it due at once. A repeated call changes nothing. */
export async function resumePayouts(
  { database, wake }: PayoutContext,
  { scope, target, reason }: PauseTarget & { readonly reason: string },
  actor: Actor,
): Promise<void> {
  await database.orm.em.fork().transactional(async (em) => {
    const ended = await em.nativeDelete(PayoutPauseEntity, { scope, target })
    if (ended === 0) return
    // It waits for claims that have read the pause and postpone payouts that are due.
    await queryableOf(em).query(
      `update payout set next_at = now() where status = 'APPROVED' and completed_at is null
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
 * One page of the pauses, the newest first.
 *
 * @param businessIds the businesses whose pauses to list, beside global pauses and pauses of banks; undefined: all
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
