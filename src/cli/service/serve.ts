import type { Command } from 'commander'
import { describe } from '../verb.ts'
import { ENV_FILE, type EnvFileOption } from './env-file.ts'

/** `inflow serve` */
export function serve(noun: Command): void {
  describe(noun.helpOption('-h, --help', 'show help'), ENV_FILE)
    .addHelpText(
      'after',
      '\nExample:\n  HTTP_PORT=8081 inflow serve\n\nSettings are environment variables: inflow config check shows them.',
    )
    .action(async ({ envFile }: EnvFileOption) => {
      const { run } = await import('../../app/run.ts')
      await run(process.env, envFile === undefined ? [] : ['--env-file', envFile])
    })
}
