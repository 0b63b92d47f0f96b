import type { Command } from 'commander'

interface VerbText {
  readonly summary: string
  /** What follows "inflow " in the example of the help. */
  readonly example: string
}

/** Adds a verb. @param usage its name and operands */
export function addVerb(noun: Command, usage: string, { summary, example }: VerbText): Command {
  return noun
    .command(usage)
    .description(summary)
    .helpOption('-h, --help', 'show help')
    .addHelpText('after', `\nExample:\n  inflow ${example}`)
}

/** Gives every verb of a noun the options of a call. */
export function addServiceOptions(noun: Command): void {
  for (const verb of noun.commands) addOwnServiceOptions(verb)
}

/** Gives a command the options of a call. A verb's own `--url` is something else. */
export function addOwnServiceOptions(verb: Command): Command {
  const taken = verb.options.some((option) => option.long === '--url')
  return verb
    .option(
      `${taken ? '' : '--url, '}--service-url <url>`,
      'gRPC address of the service (default: INFLOW_GRPC_URL, else the local one)',
    )
    .option('--token <token>', 'internal token (default: INFLOW_TOKEN, else the local one)')
    .option('--json', 'print JSON, as the service answers')
}
