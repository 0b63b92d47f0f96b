#!/usr/bin/env node
import { ABSENT_NOUNS, endWithCaller, runCommandLine, SERVICE_NOUNS } from './command-line.ts'

// The `inflow` command of the npm package, which has the commands that call a service, but not the service.

endWithCaller(process.env)
process.exitCode = await runCommandLine(process.argv.slice(2), [...SERVICE_NOUNS, ...ABSENT_NOUNS])
