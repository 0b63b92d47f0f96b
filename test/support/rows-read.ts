import type { Pool } from 'pg'

/**
 * How many rows of a table are read by some work, however it finds them. What it writes is undone.
 *
 * @param work gets a pool whose statements are of one transaction
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
    // What the connection did lately and has not told of yet is counted too.
    const before = await count()
    await work({ query, connect: async () => inner } as unknown as Pool)
    return (await count()) - before
  } finally {
    await client.query('rollback')
    client.release()
  }
}
