import type { Pool } from 'pg'

/**
 * Counts the rows of one or several tables that some work reads, by any kind of scan. Its writes are rolled back.
 *
 * @param work gets a pool whose statements all run in one transaction
 */
export async function rowsRead(
  pool: Pool,
  tables: string | readonly string[],
  work: (pool: Pool) => Promise<unknown>,
): Promise<number> {
  const client = await pool.connect()
  const count = async (): Promise<number> => {
    const { rows } = await client.query(
      `select coalesce(sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)), 0)::int as read
        from pg_stat_xact_user_tables where relname = any ($1)`,
      [[tables].flat()],
    )
    return rows[0].read
  }
  // One statement after the other, also where the work has several transactions at once.
  let last: Promise<unknown> = Promise.resolve()
  const query = (text: unknown, ...rest: []) => {
    if (/^(begin|commit)$/.test(String(text))) return undefined
    const result = last.then(() => client.query(text as string, ...rest))
    last = result.catch(() => undefined)
    return result
  }
  const inner = { query, on() {}, off() {}, release() {} }
  try {
    await client.query('begin')
    // Includes what the connection has not reported to the statistics yet.
    const before = await count()
    await work({ query, connect: async () => inner } as unknown as Pool)
    return (await count()) - before
  } finally {
    await client.query('rollback')
    client.release()
  }
}
