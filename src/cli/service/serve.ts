import type { Command } from 'commander'
import { addEnvFileOption, type EnvFileOption } from '../env-file.ts'

/** `inflow serve` */
export function serve(noun: Command): void {
  addEnvFileOption(noun)
    .helpOption('-h, --help', 'show help')
    .addHelpText(
      'after',
      '\nExample:\n  HTTP_PORT=8081 inflow serve\n\nSettings are environment variables: inflow config check shows them.',
    )
    .action(async ({ envFile }: EnvFileOption) => {
      const { run } = await import('../../app/run.ts')
      await run(process.env, envFile === undefined ? [] : ['--env-file', envFile])
    })
}
