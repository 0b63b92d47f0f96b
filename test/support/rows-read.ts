import type { Pool } from 'pg'

/**
 * How many rows of a table some work reads, by any kind of scan. Its writes are rolled back.
 *
 * @param work gets a pool whose statements all run in one transaction
 */
export async function rowsRead(
  pool: Pool,
  table: string,
  work: (pool: Pool) => Promise<unknown>,
): Promise<number> {
  const client = await pool.connect()
  const count = async (): Promise<number> => {
    const { rows } = await client.query(
      `select (coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::int as read
        from pg_stat_xact_user_tables where relname = $1`,
      [table],
    )
    return rows[0].read
  }
  const query = (text: unknown, ...rest: []) =>
    /^(begin|commit)$/.test(String(text)) ? undefined : client.query(text as string, ...rest)
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
