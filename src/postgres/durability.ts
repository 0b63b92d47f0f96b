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
  readonly standbys: number
  readonly synchronous: number
  /** Whether the role may see the state of standbys. */
  readonly visible: boolean
}

// A role without pg_monitor sees the rows, with nulls. `backup` is pg_basebackup.
const READ = `select current_setting('synchronous_commit') as commit,
    current_setting('synchronous_standby_names') as names,
    count(pid) filter (where state is distinct from 'backup')::int as standbys,
    count(*) filter (where sync_state in ('sync', 'quorum'))::int as synchronous,
    coalesce(bool_and(state is not null), true) as visible
  from pg_stat_replication`

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
  const { rows } = await pool.query<Row>(READ)
  const { commit, names, standbys, synchronous, visible } = rows[0] as Row
  const risks: DurabilityRisk[] = []
  const weak = WEAK[commit]
  if (weak) risks.push({ ...weak, advice: COMMIT_ADVICE })
  if (standbys === 0 || synchronous > 0) return risks
  const unknown = names !== '' && !visible
  risks.push({
    level: 'warn',
    found: unknown
      ? `the role may not see which of ${standbys} standbys is synchronous`
      : `standbys are connected (${standbys}) and none is synchronous: a failover may lose the latest acknowledged payments`,
    advice: unknown
      ? 'grant pg_monitor to the role of DATABASE_URL'
      : 'set synchronous_standby_names: operations.md states what each choice may lose',
  })
  return risks
}
