import type { Queryable } from './in-transaction.ts'

/**
 * What every session of the service sets as it starts, whatever the server, the database or the role say: a
 * result, a promise or a plan depends on each of them. All exist in PostgreSQL 15 to 18, and any role may set
 * them. Units are those of `pg_settings`. `test/postgres/foreign-settings.test.ts` gives each a hostile value.
 */
const SETTINGS = {
  /** With another value, statements would return something else: the service does not start. */
  required: {
    // Code and functions read in one statement what another transaction committed after the previous one.
    default_transaction_isolation: 'read committed',
    // Last in the path, a temporary table hides none of ours.
    search_path: 'public, pg_temp',
    DateStyle: 'ISO, MDY',
    IntervalStyle: 'postgres',
    standard_conforming_strings: 'on',
    array_nulls: 'on',
  },
  /** PostgreSQL's defaults, but for those with a comment. */
  expected: {
    TimeZone: 'UTC',
    bytea_output: 'hex',
    extra_float_digits: '1',
    quote_all_identifiers: 'off',
    row_security: 'on',
    client_min_messages: 'notice',
    lock_timeout: '0',
    idle_session_timeout: '0',
    // It compiles statements that take a millisecond for a second, as often as they run.
    jit: 'off',
    plan_cache_mode: 'auto',
    // Payments need the cores.
    max_parallel_workers_per_gather: '0',
    seq_page_cost: '1',
    // Of an SSD.
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
    enable_seqscan: 'on',
    enable_sort: 'on',
    enable_tidscan: 'on',
  },
} as const

/** An acknowledged payment is on disk, and at a synchronous standby. */
const DURABLE = { synchronous_commit: 'on' }

/** A setting of our sessions that has another value than the one they ask for. */
export interface ForeignSetting {
  readonly name: string
  /** In the unit of `pg_settings`. */
  readonly value: string
  readonly isRequired: boolean
  /** The statement that mends it for the role that asked. */
  readonly statement: string
}

/**
 * The start-up option of a session, in the syntax of the server's command line.
 *
 * @param own settings on top of those of every session
 */
export function sessionOptions(own: Readonly<Record<string, string>> = DURABLE): string {
  return Object.entries({ ...SETTINGS.expected, ...SETTINGS.required, ...own })
    .map(([name, value]) => `-c ${name}=${value.replaceAll(' ', '\\ ')}`)
    .join(' ')
}

/**
 * The settings that a session lacks. There are none unless something between the service and the server drops
 * start-up options: a pooler, or `options` in the URL.
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
    // A quoted list would be one name.
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
