#!/usr/bin/env node
import { ABSENT_NOUNS, runCommandLine, SERVICE_NOUNS } from './command-line.ts'
import { endWithNpx } from './end-with-npx.ts'

// The `inflow` command of the npm package: all that calls a service, and nothing of the service.

// A reader that closes the pipe early (`| head`) is not an error.
process.stdout.on('error', ({ code }: NodeJS.ErrnoException) => {
  process.exit(code === 'EPIPE' ? 0 : 1)
})
endWithNpx(process.env)
process.exitCode = await runCommandLine(process.argv.slice(2), [...SERVICE_NOUNS, ...ABSENT_NOUNS])
