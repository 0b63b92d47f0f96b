import type { Pool } from 'pg'

/** What may lose acknowledged payments. */
export interface DurabilityRisk {
  /** `fail`: a crash of one machine suffices. */
  readonly level: 'warn' | 'fail'
  readonly found: string
  readonly advice: string
}

interface Row {
  readonly commit: string
  readonly names: string
  /** Null: the role may not see them. */
  readonly standbys: number | null
  readonly synchronous: number
  /** Whether the role may see the state of standbys. */
  readonly visible: boolean
}

const SETTINGS = `current_setting('synchronous_commit') as commit,
    current_setting('synchronous_standby_names') as names`

// A role without pg_monitor sees the rows, with nulls. `backup` is pg_basebackup.
const READ = `select ${SETTINGS},
    count(pid) filter (where state is distinct from 'backup')::int as standbys,
    count(*) filter (where sync_state in ('sync', 'quorum'))::int as synchronous,
    coalesce(bool_and(state is not null), true) as visible
  from pg_stat_replication`

/** For a role that may not read pg_stat_replication, as on some hardened servers. */
const READ_SETTINGS = `select ${SETTINGS}, null as standbys, 0 as synchronous, false as visible`

/** SQLSTATE insufficient_privilege */
const FORBIDDEN = '42501'

const COMMIT_ADVICE = 'alter role … reset synchronous_commit, or set it to on in postgresql.conf'

/** The levels of synchronous_commit that are weaker than `on`. */
const WEAK: Readonly<Record<string, Omit<DurabilityRisk, 'advice'>>> = {
  off: {
    level: 'fail',
    found: 'synchronous_commit is off: a crash may lose the latest acknowledged payments',
  },
  local: {
    level: 'warn',
    found: 'synchronous_commit is local: a failover may lose the latest acknowledged payments',
  },
  remote_write: {
    level: 'warn',
    found:
      'synchronous_commit is remote_write: a failover to a standby that crashed too may lose the latest acknowledged payments',
  },
}

/** What may lose acknowledged payments at a crash or a failover, as the server is set up now. */
export async function readDurabilityRisks(
  pool: Pick<Pool, 'query'>,
): Promise<readonly DurabilityRisk[]> {
  const { rows } = await pool.query<Row>(READ).catch((error: { code?: string }) => {
    if (error.code !== FORBIDDEN) throw error
    return pool.query<Row>(READ_SETTINGS)
  })
  const { commit, names, standbys, synchronous, visible } = rows[0] as Row
  const risks: DurabilityRisk[] = []
  const weak = WEAK[commit]
  if (weak) risks.push({ ...weak, advice: COMMIT_ADVICE })
  if (standbys === 0 || synchronous > 0) return risks
  const unknown = standbys === null || (names !== '' && !visible)
  risks.push({
    level: 'warn',
    found: unknown
      ? 'the role may not see whether a standby is synchronous'
      : `standbys are connected (${standbys}) and none is synchronous: a failover may lose the latest acknowledged payments`,
    advice: unknown
      ? 'grant pg_monitor to the role of DATABASE_URL'
      : 'set synchronous_standby_names: operations.md states what each choice may lose',
  })
  return risks
}
