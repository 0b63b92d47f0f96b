import type { Queryable } from './in-transaction.ts'

/**
 * The settings that every session of the service sets when it starts, because a result, a guarantee or a plan depends on
 * each of them. They override the settings of the server, the database and the role. All exist in PostgreSQL 15 to 18, and
 * any role can set them. Units are those of `pg_settings`. `test/postgres/foreign-settings.test.ts` tests each with a
 * hostile value.
 */
const SETTINGS = {
  /** Other values would change results, so the service does not start with them. */
  required: {
    // A statement must see the commits of other transactions since the previous statement.
    default_transaction_isolation: 'read committed',
    // With pg_temp last in the path, a temporary table cannot hide our tables.
    search_path: 'public, pg_temp',
    DateStyle: 'ISO, MDY',
    IntervalStyle: 'postgres',
    standard_conforming_strings: 'on',
    array_nulls: 'on',
  },
  /** PostgreSQL's defaults, except for settings with a comment. */
  expected: {
    TimeZone: 'UTC',
    bytea_output: 'hex',
    extra_float_digits: '1',
    quote_all_identifiers: 'off',
    row_security: 'on',
    client_min_messages: 'notice',
    lock_timeout: '0',
    idle_session_timeout: '0',
    // A transaction of an instance that fell silent ends, and with it its locks.
    idle_in_transaction_session_timeout: '60000',
    // JIT would compile statements for a second that take a millisecond, every time they run.
    jit: 'off',
    plan_cache_mode: 'auto',
    // Parallel queries would take cores from payments.
    max_parallel_workers_per_gather: '0',
    seq_page_cost: '1',
    // The cost for an SSD.
    random_page_cost: '1.1',
    cpu_tuple_cost: '0.01',
    cpu_index_tuple_cost: '0.005',
    cpu_operator_cost: '0.0025',
    effective_cache_size: '524288',
    work_mem: '4096',
    hash_mem_multiplier: '2',
    from_collapse_limit: '8',
    join_collapse_limit: '8',
    constraint_exclusion: 'partition',
    geqo: 'on',
    geqo_threshold: '12',
    enable_bitmapscan: 'on',
    enable_hashagg: 'on',
    enable_hashjoin: 'on',
    enable_incremental_sort: 'on',
    enable_indexonlyscan: 'on',
    enable_indexscan: 'on',
    enable_material: 'on',
    enable_memoize: 'on',
    enable_mergejoin: 'on',
    enable_nestloop: 'on',
    enable_partition_pruning: 'on',
    enable_partitionwise_aggregate: 'off',
    enable_partitionwise_join: 'off',
    // A plan is kept: a scan that was planned while a table was small would read all of it later.
    enable_seqscan: 'off',
    enable_sort: 'on',
    enable_tidscan: 'on',
  },
} as const

/** An acknowledged payment is on disk, and on a synchronous standby if there is one. */
const DURABLE = { synchronous_commit: 'on' }

/** A setting of our sessions that does not have the requested value. */
interface ForeignSetting {
  readonly name: string
  /** The current value, in the unit of `pg_settings`. */
  readonly value: string
  readonly isRequired: boolean
  /** The statement that corrects the setting for the role. */
  readonly statement: string
}

/**
 * The start-up option of a session, in the syntax of the server's command line.
 *
 * @param own further settings of the session
 */
export function sessionOptions(own: Readonly<Record<string, string>> = DURABLE): string {
  return Object.entries({ ...SETTINGS.expected, ...SETTINGS.required, ...own })
    .map(([name, value]) => `-c ${name}=${value.replaceAll(' ', '\\ ')}`)
    .join(' ')
}

/**
 * Reads the settings that a session lacks. It lacks some only if a pooler drops start-up options, or `options` in the URL
 * replaces them.
 *
 * @param on a session of the service
 */
export async function readForeignSettings(on: Queryable): Promise<readonly ForeignSetting[]> {
  const needed: Record<string, string> = { ...SETTINGS.expected, ...SETTINGS.required }
  const { rows } = await on.query<{ name: string; value: string; role: string; base: string }>(
    `select name, setting as value, quote_ident(current_user) as role, quote_ident(current_database()) as base
      from json_each_text($1) needed(name, value) join pg_settings using (name)
      where case name
        when 'search_path' then current_schema() is distinct from 'public'
        when 'DateStyle' then setting not like 'ISO%'
        when 'TimeZone' then setting not in ('UTC', 'Etc/UTC')
        else setting <> needed.value end
      order by name`,
    [JSON.stringify(needed)],
  )
  return rows.map(({ name, value, role, base }) => {
    // `search_path` is a list; quotes would make it one name.
    const text = name === 'search_path' ? needed[name] : `'${needed[name]}'`
    return {
      name,
      value,
      isRequired: name in SETTINGS.required,
      statement: `alter role ${role} in database ${base} set ${name} = ${text}`,
    }
  })
}

/**
 * Throws if our sessions lack a setting that changes results.
 *
 * @param on a session of the service
 */
export async function requireSettings(on: Queryable): Promise<void> {
  const wrong = (await readForeignSettings(on)).filter(({ isRequired }) => isRequired)
  if (wrong.length === 0) return
  const found = wrong.map(({ name, value }) => `${name} is ${value}`).join(', ')
  const statements = wrong.map(({ statement }) => statement).join('; ')
  throw new Error(`in the service's sessions ${found}, which changes results; run: ${statements}`)
}
