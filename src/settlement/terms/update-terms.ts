import { appendAudit } from '../../auth/audit/append-audit-entry.ts'
import type { Actor } from '../../auth/caller.ts'
import { getBusiness } from '../../businesses/get-business.ts'
import type { Clock } from '../../core/clock.ts'
import type { Database } from '../../postgres/orm.ts'
import { queryableOf } from '../../postgres/queries-of.ts'
import { lockDue } from '../due/lock-due.ts'
import { refreshDue } from '../due/refresh-due.ts'
import { findTerms, upsertTerms } from './store.ts'
import { DEFAULT_TERMS, type Terms } from './terms.ts'

/** @throws Fault not_found if the business does not exist */
export async function getTerms(database: Database, businessId: string): Promise<Terms> {
  await getBusiness(database, businessId)
  return (await findTerms(database.orm.em.fork(), businessId)) ?? DEFAULT_TERMS
}

/** @throws Fault not_found if the business does not exist */
export async function updateTerms(
  { database, clock }: { readonly database: Database; readonly clock: Clock },
  businessId: string,
  terms: Terms,
  actor: Actor,
): Promise<Terms> {
  await getBusiness(database, businessId)
  await database.orm.em.fork().transactional(async (em) => {
    await upsertTerms(em, businessId, terms, clock.now())
    const client = queryableOf(em)
    await lockDue(client, 'exclusive')
    await refreshDue(client, [
      { businessId, live: false },
      { businessId, live: true },
    ])
    const { feeFlatMinor, feeCapMinor, ...rest } = terms
    await appendAudit(em, actor, {
      action: 'terms.update',
      targetId: businessId,
      businessId,
      details: { ...rest, feeFlatMinor: `${feeFlatMinor}`, feeCapMinor: `${feeCapMinor}` },
    })
  })
  return terms
}
