import { setTimeout as delay } from 'node:timers/promises'
import type { Pool } from 'pg'
import { SEQUENCER_STATE, unnumberedEvents } from './balance-changes.sql.ts'

/** Numbers follow a commit within milliseconds, unless the sequencer is held up. */
const POLL_MS = 10
const WAIT_MAX_MS = 2_000

const UNNUMBERED = unnumberedEvents('o.seq', '$1', '$2')

/** Waits until the events of a business and mode that are committed now have their numbers, or for two seconds. */
export async function awaitNumbers(
  pool: Pool,
  { businessId, live }: { readonly businessId: string; readonly live: boolean },
  signal: AbortSignal,
): Promise<void> {
  /** The last of these events; null: those that are left have their numbers. */
  let last: string | null = `${2n ** 62n}`
  for (let waitedMs = 0; waitedMs < WAIT_MAX_MS && !signal.aborted; waitedMs += POLL_MS) {
    const { rows }: { rows: { last: string | null }[] } = await pool.query({
      name: 'event-unnumbered',
      text: `with ${SEQUENCER_STATE} select max(seq) as last from (${UNNUMBERED}) o where seq <= $3`,
      values: [businessId, live, last],
    })
    last = rows[0]?.last ?? null
    if (last === null) return
    await delay(POLL_MS)
  }
}
