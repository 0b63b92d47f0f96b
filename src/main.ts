import { enableCompileCache } from 'node:module'
import { join } from 'node:path'

// The cache is in the folder of the installation, because another user could put code into a shared folder.
enableCompileCache(join(import.meta.dirname, '../node_modules/.cache/inflow'))

const { run } = await import('./app/run.ts')
await run(process.env, process.argv.slice(2))
