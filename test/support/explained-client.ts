import pg, { type Pool } from 'pg'
import type { PlanNode } from '../postgres/explained-database.ts'

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
 * Runs statements on one connection of their own, as the owner of the server.
 *
 * @returns the plans of the statements, as they ran
 */
export async function explain(
  url: string,
  run: (pool: Pool) => Promise<unknown>,
): Promise<PlanNode[]> {
  const client = new pg.Client({
    connectionString: url,
    options: SETTINGS.map((setting) => `-c ${setting}`).join(' '),
  })
  const plans: PlanNode[] = []
  client.on('notice', ({ message = '' }) => {
    const text = message.slice(message.indexOf('{'))
    if (message.startsWith('duration: ')) plans.push(JSON.parse(text).Plan)
  })
  await client.connect()
  try {
    await run(client as unknown as Pool)
  } finally {
    await client.end()
  }
  return plans
}
