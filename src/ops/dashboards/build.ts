import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { banks } from './banks.ts'
import { toGrafana } from './dashboard.ts'
import { database } from './database.ts'
import { overview } from './overview.ts'
import { payments } from './payments.ts'
import { webhooks } from './webhooks.ts'

/** Writes the dashboards that Grafana imports into `src/ops/grafana`. */
const TARGET = join(import.meta.dirname, '../grafana')

await mkdir(TARGET, { recursive: true })
for (const dashboard of [overview, payments, webhooks, banks, database]) {
  const path = join(TARGET, `${dashboard.name}.json`)
  await writeFile(path, `${JSON.stringify(toGrafana(dashboard), undefined, 2)}\n`)
}
