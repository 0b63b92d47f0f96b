#!/usr/bin/env node
import { enableCompileCache } from 'node:module'
import { join } from 'node:path'

// Halves the start-up time. The folder belongs to the installation, because cached code in a shared
// folder could be planted by other users. Without write permission there is no cache.
enableCompileCache(join(import.meta.dirname, '../../node_modules/.cache/inflow'))

// A reader that closes the pipe early (`| head`) is not an error.
process.stdout.on('error', ({ code }: NodeJS.ErrnoException) => {
  process.exit(code === 'EPIPE' ? 0 : 1)
})
const { endWithNpx } = await import('./end-with-npx.ts')
endWithNpx(process.env)
const { runCommandLine, SERVICE_NOUNS } = await import('./command-line.ts')
const { MACHINE_NOUNS } = await import('./service/nouns.ts')
process.exitCode = await runCommandLine(process.argv.slice(2), [...MACHINE_NOUNS, ...SERVICE_NOUNS])
