import type pg from 'pg'

/** Throws if a row violates a foreign key: the seed inserts rows with the checks disabled. */
export async function checkForeignKeys(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ name: string; sql: string }>(
    `select conname as name, format(
        'select from %s c left join %s p on %s where %s and p.%I is null limit 1',
        conrelid::regclass, confrelid::regclass,
        string_agg(format('p.%I = c.%I', parent.attname, child.attname), ' and '),
        string_agg(format('c.%I is not null', child.attname), ' and '), min(parent.attname)) as sql
      from pg_constraint
      cross join lateral unnest(conkey, confkey) as pair(child, parent)
      join pg_attribute child on child.attrelid = conrelid and child.attnum = pair.child
      join pg_attribute parent on parent.attrelid = confrelid and parent.attnum = pair.parent
      where contype = 'f' and connamespace = 'public'::regnamespace
      group by pg_constraint.oid, conname, conrelid, confrelid`,
  )
  for (const { name, sql } of rows) {
    const { rowCount } = await client.query(sql)
    if (rowCount !== 0) throw new Error(`the seed breaks ${name}`)
  }
}
