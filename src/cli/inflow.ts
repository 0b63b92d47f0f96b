#!/usr/bin/env node
import { enableCompileCache } from 'node:module'
import { join } from 'node:path'

// Halves the start-up time. The folder is the installation's own, as code that anyone may plant in
// a shared one would run; where it cannot be written there is no cache.
enableCompileCache(join(import.meta.dirname, '../../node_modules/.cache/inflow'))

// A reader that has seen enough (`| head`) is no fault.
process.stdout.on('error', ({ code }: NodeJS.ErrnoException) => {
  process.exit(code === 'EPIPE' ? 0 : 1)
})
const { runCommandLine } = await import('./command-line.ts')
process.exitCode = await runCommandLine(process.argv.slice(2))
