import type { Command } from 'commander'

/** `inflow serve` */
export function serve(noun: Command): void {
  noun
    .helpOption('-h, --help', 'show help')
    .addHelpText(
      'after',
      '\nExample:\n  HTTP_PORT=8081 inflow serve\n\nSettings are environment variables, see README.md.',
    )
    .action(async () => {
      const { run } = await import('../../app/run.ts')
      await run(process.env)
    })
}
