import { createRequire } from 'node:module'
import { Command, CommanderError } from 'commander'
import { EXIT, Failure } from './failure.ts'
import { note } from './output.ts'

/** A command of the first level. */
export interface Noun {
  readonly name: string
  readonly summary: string
  /** Help does not list it. */
  readonly hidden?: boolean
  /**
   * Adds the noun's verbs. Loaded only when the noun is used, as most import a gRPC client.
   * `describeAll` describes all commands, with their verbs.
   */
  load(): Promise<(noun: Command, describeAll: () => Promise<Command>) => void>
}

/** The commands that call a service, wherever it runs. */
export const SERVICE_NOUNS: readonly Noun[] = [
  {
    name: 'overview',
    summary: 'figures of the day, what waits, the banks and the health of the service',
    load: async () => (await import('./overview.ts')).overview,
  },
  {
    name: 'search',
    summary: 'find what an id, a reference, a number, an address or a name belongs to',
    load: async () => (await import('./overview.ts')).search,
  },
  {
    name: 'review',
    summary: 'what waits for a decision: list',
    load: async () => (await import('./overview.ts')).review,
  },
  {
    name: 'business',
    summary: 'businesses: create, update, list',
    load: async () => (await import('./access.ts')).business,
  },
  {
    name: 'key',
    summary: 'secret keys of a business: issue, import, update, rotate, revoke, list',
    load: async () => (await import('./access.ts')).key,
  },
  {
    name: 'token',
    summary: 'tokens for internal services and operators: issue, revoke, list',
    load: async () => (await import('./access.ts')).token,
  },
  {
    name: 'console',
    summary: 'the console: link, which signs a browser in',
    load: async () => (await import('./console.ts')).console,
  },
  {
    name: 'portal',
    summary: 'links that open the console for one business: link, list, revoke',
    load: async () => (await import('./console.ts')).portal,
  },
  {
    name: 'session',
    summary: 'sessions of the console: list, revoke',
    load: async () => (await import('./console.ts')).session,
  },
  {
    name: 'audit',
    summary: 'the audit log of administrative changes: list, verify',
    load: async () => (await import('./audit.ts')).audit,
  },
  {
    name: 'account',
    summary: 'virtual accounts: create, get, list, split, close, resolve',
    load: async () => (await import('./account.ts')).account,
  },
  {
    name: 'recipient',
    summary: 'businesses that may get shares of the payments of another one: approve, revoke, list',
    load: async () => (await import('./account.ts')).recipient,
  },
  {
    name: 'import',
    summary: 'accounts and payments of another provider, from a file: accounts, transactions',
    load: async () => (await import('./import.ts')).importNoun,
  },
  {
    name: 'transfer',
    summary: 'transfers at the simulated banks: simulate',
    load: async () => (await import('./transaction.ts')).transfer,
  },
  {
    name: 'transaction',
    summary:
      'payments received: get, list, timeline, reverse, held, accept, return, complete-return',
    load: async () => (await import('./transaction.ts')).transaction,
  },
  {
    name: 'settle',
    summary: 'settlement: run, preview, list, calendar, terms',
    load: async () => (await import('./settlement.ts')).settle,
  },
  {
    name: 'balance',
    summary: 'show the balance of a business: pending, available, fees',
    load: async () => (await import('./settlement.ts')).balance,
  },
  {
    name: 'statement',
    summary: 'account statement of a business for a period, as CSV or JSON',
    load: async () => (await import('./statement.ts')).statement,
  },
  {
    name: 'ledger',
    summary: 'the ledger of all businesses: verify',
    load: async () => (await import('./settlement.ts')).ledger,
  },
  {
    name: 'holiday',
    summary: 'holidays, which do not count as working days: add, remove, list',
    load: async () => (await import('./settlement.ts')).holiday,
  },
  {
    name: 'unmatched',
    summary: 'payments that match no open account: list, assign, return',
    load: async () => (await import('./manual-review.ts')).unmatched,
  },
  {
    name: 'notification',
    summary: "banks' notifications, and their manual review: list, find, show, retry, resolve",
    load: async () => (await import('./manual-review.ts')).notification,
  },
  {
    name: 'conflict',
    summary: 'reports that contradict recorded payments: list, resolve',
    load: async () => (await import('./manual-review.ts')).conflict,
  },
  {
    name: 'reconcile',
    summary: "compare a bank's statement with the recorded payments, and record missing ones",
    load: async () => (await import('./reconcile.ts')).reconcile,
  },
  {
    name: 'webhook',
    summary:
      'webhook endpoints: add, list, remove, update, rotate, switch, test, rehearse, statistics, listen; their deliveries: ' +
      'deliveries, delivery, redeliver, skip, recover',
    load: async () => (await import('./webhook.ts')).webhook,
  },
  {
    name: 'events',
    summary: 'the event log: tail, kinds, epoch bump',
    load: async () => (await import('./events.ts')).events,
  },
  {
    name: 'proto',
    summary: 'the contract for programs in other languages: export',
    load: async () => (await import('./proto.ts')).proto,
  },
  {
    name: 'completion',
    summary: 'print the script that completes commands in a shell: bash, zsh, fish',
    load: async () => (await import('./completion.ts')).completion,
  },
]

/** Read, not imported: older releases of Node warn of an import of JSON. */
const { version } = createRequire(import.meta.url)('../../package.json') as { version: string }

const HELP = `
The service is found through --url and --token-file, else INFLOW_GRPC_URL and INFLOW_TOKEN (or a file:
INFLOW_TOKEN_FILE), else DATA_DIR/credentials.json (DATA_DIR defaults to .inflow). For https, INFLOW_CA
names a file with the CA certificate of the service, and INFLOW_CERT and INFLOW_KEY the files of a
client certificate.

Exit codes: 0 success, 1 refused or failed, 2 invalid usage, 3 the service cannot be reached.

Examples:
  inflow account create --reference order-1 --bank 9PSB --first-name Ada --last-name Obi \\
    --email ada@example.com --phone 08012345678
  inflow transfer simulate --account 1234567890 --amount 1500.50
  inflow transaction list --json
  inflow <command> --help`

/** Runs one command line. @returns the exit code */
export async function runCommandLine(
  argv: readonly string[],
  nouns: readonly Noun[],
): Promise<number> {
  try {
    // The noun comes first, or second after "help".
    const program = await createProgram(nouns, (noun) => argv.slice(0, 2).includes(noun))
    await program.parseAsync(argv, { from: 'user' })
    return 0
  } catch (error) {
    return report(error)
  }
}

/**
 * Describes the commands.
 *
 * @param isNeeded whether the verbs of a noun are needed, not only its name and summary
 */
export async function createProgram(
  nouns: readonly Noun[],
  isNeeded: (noun: string) => boolean,
): Promise<Command> {
  const program = new Command('inflow')
    .description('Operates Inflow, a virtual account payment service.')
    .version(version, '-V, --version', 'print the version')
    .helpOption('-h, --help', 'show help')
    .helpCommand('help [command]', 'show help of a command')
    .addHelpText('after', HELP)
    .showHelpAfterError('(add --help for usage)')
    .exitOverride()
  const describeAll = () => createProgram(nouns, () => true)
  for (const { name, summary, hidden = false, load } of nouns) {
    const noun = program.command(name, { hidden }).description(summary).helpCommand(false)
    if (isNeeded(name)) (await load())(noun, describeAll)
  }
  return program
}

function report(error: unknown): number {
  // Commander has printed the error. Requested help exits with 0.
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : EXIT.usage
  if (error instanceof Failure) {
    note(`error: ${error.message}`)
    for (const detail of error.details) note(`  ${detail}`)
    return error.exitCode
  }
  note(`error: ${error instanceof Error ? error.message : String(error)}`)
  if (isDefect(error)) for (const line of error.stack?.split('\n').slice(1) ?? []) note(line)
  return EXIT.refused
}

/** Errors of the language are defects of this program, so their stack is printed. */
function isDefect(error: unknown): error is Error {
  return [TypeError, ReferenceError, SyntaxError, RangeError].some((kind) => error instanceof kind)
}
