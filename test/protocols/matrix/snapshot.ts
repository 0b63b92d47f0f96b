import { setTimeout as pause } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import type { TestService } from '../../support/service.ts'
import { WAIT_LIMIT_MS } from '../../support/wait-for.ts'
import { until } from '../rest/rest.ts'

/** Tables whose rows change without a call, on timers, and the log of all requests. */
export const BY_THEMSELVES =
  /^(api_request|sequencer_tick|event_retention|log_follower|settlement_(due|sweep)|webhook_(dispatcher|attempt|hour)|payment_hour|bank_(breaker|float)|payout_(sender|reconciliation)|master_key_holder|rate_.*)$/

/**
 * Every row that a call could have changed, as a count and a hash for each table, once what earlier calls began has
 * ended: two readings half a second apart are the same.
 */
export async function snapshotOf(service: TestService): Promise<unknown> {
  for (let last = await readAll(service); ; ) {
    await pause(500)
    const now = await readAll(service)
    if (isDeepStrictEqual(now, last)) return now
    last = now
  }
}

async function readAll({ database: { durablePool } }: TestService): Promise<unknown> {
  // Events of earlier calls become deliveries by themselves.
  await until(
    () =>
      durablePool.query<{ quiet: boolean }>(
        `select (select count(*) from outbox) = (select count(*) from event_log)
        and (select max(position) from event_log) = (select max(position) from webhook_dispatcher)
        as quiet`,
      ),
    ({ rows }) => rows[0]!.quiet,
    WAIT_LIMIT_MS,
  )
  // Partitions, which a job makes and drops, are read through their tables.
  const { rows } = await durablePool.query<{ tablename: string }>(
    `select relname as tablename from pg_class where relnamespace = 'public'::regnamespace
      and relkind in ('r', 'p') and not relispartition order by relname`,
  )
  const tables = rows.map((row) => row.tablename).filter((name) => !BY_THEMSELVES.test(name))
  const hashes: Record<string, unknown> = {}
  for (const table of tables) {
    const { rows: found } = await durablePool.query(
      `select count(*), md5(string_agg(${rowOf(table)}, '|' order by ${rowOf(table)}))
        from "${table}" t`,
    )
    hashes[table] = found[0]
  }
  return hashes
}

function rowOf(table: string): string {
  // Of a delivery, what sending it again changes: attempts come by themselves.
  if (table === 'webhook_delivery') return "t.id || ' ' || t.schedule_from"
  // The last use of a credential, and whether an endpoint fails, are written in the background.
  return "(to_jsonb(t) - array['last_used_at', 'failing_since', 'warned_at'])::text"
}
