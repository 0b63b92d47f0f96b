import type { Command } from 'commander'

interface VerbText {
  readonly summary: string
  /** The example of the help text, without the leading "inflow ". */
  readonly example: string
}

/** Adds a verb to a noun. @param usage its name and operands */
export function addVerb(noun: Command, usage: string, { summary, example }: VerbText): Command {
  return noun
    .command(usage)
    .description(summary)
    .helpOption('-h, --help', 'show help')
    .addHelpText('after', `\nExample:\n  inflow ${example}`)
}

/** Adds the options of a service call to every verb of a noun. */
export function addServiceOptions(noun: Command): void {
  for (const verb of noun.commands) addOwnServiceOptions(verb)
}

/** Adds the options of a service call to a command. A verb's own `--url` has another meaning. */
export function addOwnServiceOptions(verb: Command): Command {
  const taken = verb.options.some((option) => option.long === '--url')
  return verb
    .option(
      `${taken ? '' : '--url, '}--service-url <url>`,
      'gRPC URL of the service (default: INFLOW_GRPC_URL, else the local service)',
    )
    .option(
      '--token-file <path>',
      'file of an internal token (default: INFLOW_TOKEN or INFLOW_TOKEN_FILE, else the token of the ' +
        'local service)',
    )
    .option('--token <token>', 'the token itself, which others on the machine can see here')
    .option('--json', 'print the response of the service as JSON')
}
