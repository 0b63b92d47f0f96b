#!/usr/bin/env node
import { enableCompileCache } from 'node:module'
import { join } from 'node:path'

// The compile cache halves the start-up time. Its folder belongs to the installation, because other users could put code
// into a shared folder. Without write permission there is no cache.
enableCompileCache(join(import.meta.dirname, '../../node_modules/.cache/inflow'))

const { endWithCaller, runCommandLine, SERVICE_NOUNS } = await import('./command-line.ts')
endWithCaller(process.env)
const { MACHINE_NOUNS } = await import('./service/nouns.ts')
process.exitCode = await runCommandLine(process.argv.slice(2), [...MACHINE_NOUNS, ...SERVICE_NOUNS])
