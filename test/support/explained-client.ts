import pg, { type Pool } from 'pg'
import { nodesOf, type PlanNode } from '../postgres/explained-database.ts'

const SETTINGS = [
  'session_preload_libraries=auto_explain',
  'auto_explain.log_min_duration=0',
  'auto_explain.log_analyze=on',
  'auto_explain.log_buffers=on',
  'auto_explain.log_timing=off',
  'auto_explain.log_format=json',
  'auto_explain.log_level=notice',
]

/**
 * Runs statements on a separate connection, as the owner of the server.
 *
 * @returns the nodes of the plans with which the statements ran
 */
export async function explain(
  url: string,
  run: (pool: Pool) => Promise<unknown>,
): Promise<PlanNode[]> {
  const pool = new pg.Pool({
    connectionString: url,
    options: SETTINGS.map((setting) => `-c ${setting}`).join(' '),
    max: 1,
  })
  const plans: PlanNode[] = []
  pool.on('connect', (client) => {
    client.on('notice', ({ message = '' }) => {
      const text = message.slice(message.indexOf('{'))
      if (message.startsWith('duration: ')) plans.push(JSON.parse(text).Plan)
    })
  })
  try {
    await run(pool)
  } finally {
    await pool.end()
  }
  return plans.flatMap((plan) => [...nodesOf(plan)])
}
