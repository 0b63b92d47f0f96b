import { createRequire } from 'node:module'
import { Command, CommanderError } from 'commander'
import { EXIT, Failure, jsonText, note, noteZone } from './output.ts'

/** A command of the first level. */
export interface Noun {
  readonly name: string
  readonly summary: string
  /** Whether help omits the noun. */
  readonly hidden?: boolean
  /**
   * Loads the function that adds the noun's verbs. Called only if the noun is used, because most verbs import a gRPC client.
   * `describe` describes all commands, with the verbs of the nouns that are needed.
   */
  load(): Promise<
    (noun: Command, describe: (isNeeded: (noun: string) => boolean) => Promise<Command>) => void
  >
}

const SERVICE_HELP = `
  overview: figures of the day, what waits, the banks and the health of the service
  search: find what an id, a reference, a number, an address or a name belongs to
  review: what waits for a decision: update, list
  business: businesses: create, update, list
  key: secret keys of a business: issue, import, update, rotate, revoke, list, requests
  token: tokens for internal services and operators: issue, revoke, list
  console: the console: link, which signs a browser in
  portal: links that open the console for one business: link, list, revoke
  session: sessions of the console: list, revoke
  audit: the audit log of administrative changes: list, verify
  account: virtual accounts: create, get, list, split, close, resolve
  recipient: businesses that may get shares of the payments of another one: approve, revoke, list
  import: accounts and payments of another provider, from a file: accounts, transactions
  transfer: transfers at the simulated banks: simulate
  transaction: payments received: get, list, summary, timeline, reverse, held, accept, return, complete-return
  settle: settlement: run, preview, list, calendar, terms
  payout: money out: create, get, list, approve, reject, cancel, resolve, resolve-name, banks, beneficiaries, pause, resume, pauses, float, reconcile, discrepancies, resolve-discrepancy, import, batches, batch, approve-batch, reject-batch, policy
  refund: refunds of payments: create, unmatched, list
  balance: show the balance of a business: pending, available, reserved, fees
  statement: account statement of a business for a period, as CSV or JSON
  ledger: the ledger of all businesses: verify
  holiday: holidays, which do not count as working days: add, remove, list
  unmatched: payments that match no open account: list, assign, return
  notification: banks' notifications, and their manual review: list, find, show, retry, resolve
  conflict: reports that contradict recorded payments: list, resolve
  reconcile: compare a bank's statement with the recorded payments, and record missing ones
  webhook: webhook endpoints: add, list, remove, update, rotate, switch, test, rehearse, statistics, listen; their deliveries: deliveries, delivery, redeliver, skip, recover
  events: the event log: tail, kinds, epoch bump
  login: store the address and a token of a service as a profile
  logout: remove a profile
  profile: the stored profiles: list, use
  api: call any method of the contract with JSON
  proto: the contract for programs in other languages: export
  completion: print the script that completes commands in a shell: bash, zsh, fish`

/** The commands that call a service, wherever it runs. */
export const SERVICE_NOUNS: readonly Noun[] = listNouns(SERVICE_HELP, {
  overview: async () => (await import('./overview.ts')).overview,
  search: async () => (await import('./overview.ts')).search,
  review: async () => (await import('./overview.ts')).review,
  business: async () => (await import('./access.ts')).business,
  key: async () => (await import('./access.ts')).key,
  token: async () => (await import('./access.ts')).token,
  console: async () => (await import('./console.ts')).console,
  portal: async () => (await import('./console.ts')).portal,
  session: async () => (await import('./console.ts')).session,
  audit: async () => (await import('./audit.ts')).audit,
  account: async () => (await import('./account.ts')).account,
  recipient: async () => (await import('./account.ts')).recipient,
  import: async () => (await import('./import.ts')).importNoun,
  transfer: async () => (await import('./transaction.ts')).transfer,
  transaction: async () => (await import('./transaction.ts')).transaction,
  settle: async () => (await import('./settlement.ts')).settle,
  payout: async () => (await import('./payout.ts')).payout,
  refund: async () => (await import('./payout.ts')).refund,
  balance: async () => (await import('./settlement.ts')).balance,
  statement: async () => (await import('./statement.ts')).statement,
  ledger: async () => (await import('./settlement.ts')).ledger,
  holiday: async () => (await import('./settlement.ts')).holiday,
  unmatched: async () => (await import('./manual-review.ts')).unmatched,
  notification: async () => (await import('./manual-review.ts')).notification,
  conflict: async () => (await import('./manual-review.ts')).conflict,
  reconcile: async () => (await import('./reconcile.ts')).reconcile,
  webhook: async () => (await import('./webhook.ts')).webhook,
  events: async () => (await import('./events.ts')).events,
  login: async () => (await import('./login.ts')).login,
  logout: async () => (await import('./login.ts')).logout,
  profile: async () => (await import('./login.ts')).profile,
  api: async () => (await import('./api.ts')).api,
  proto: async () => (await import('./proto.ts')).proto,
  completion: async () => (await import('./completion.ts')).completion,
})

const OF_SERVICE = 'serve init config migrate master-key doctor health fake-banks'.split(' ')

/** The nouns that exist only in a checkout. Help does not list them, and using one says where to run it. */
export const ABSENT_NOUNS: readonly Noun[] = OF_SERVICE.map((name) => ({
  name,
  summary: 'in the folder of the service only',
  hidden: true,
  load: async () => (noun) => {
    noun
      .argument('[words...]')
      .helpOption(false)
      .allowUnknownOption()
      .action(() => {
        throw new Failure(
          EXIT.usage,
          `\`inflow ${name}\` works on the service's own machine: run it in the folder of the service`,
        )
      })
  },
}))

/** Lists the nouns of a help text, with their loaders. */
export function listNouns(help: string, loads: Readonly<Record<string, Noun['load']>>): Noun[] {
  return help
    .trim()
    .split('\n')
    .flatMap((line) => {
      const [, name = '', summary = ''] = /^\s*([a-z-]+): (.*)$/.exec(line) ?? []
      const load = loads[name]
      return load ? [{ name, summary, load }] : []
    })
}

/** Read with `require`, because older releases of Node print a warning if JSON is imported. */
const { version } = createRequire(import.meta.url)('../../package.json') as { version: string }

const HELP = `
The service is found through --url and --token-file, else --profile or INFLOW_PROFILE, else INFLOW_GRPC_URL and
INFLOW_TOKEN (or a file: INFLOW_TOKEN_FILE), else DATA_DIR/credentials.json (DATA_DIR defaults to .inflow), else
the profile in use (inflow login). For https, INFLOW_CA names a file with the CA certificate of the service,
and INFLOW_CERT and INFLOW_KEY the files of a client certificate.

Exit codes: 0 success, 1 refused or failed, 2 invalid usage, 3 the service cannot be reached.
With --json, an error is one line on standard error: {"error":{"reason","message","details","exit_code"}}.

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
  const json = argv.includes('--json')
  try {
    // The noun comes first, or second after "help".
    const program = await createProgram(nouns, (noun) => argv.slice(0, 2).includes(noun))
    if (json)
      for (const each of withVerbs(program)) each.configureOutput({ writeErr: () => undefined })
    await program.parseAsync(argv, { from: 'user' })
    noteZone()
    return 0
  } catch (error) {
    return json ? reportJson(error) : report(error)
  }
}

/** Returns a command and its subcommands, each of which has its own output. */
const withVerbs = (command: Command): Command[] => [command, ...command.commands.flatMap(withVerbs)]

/** Creates the program. @param isNeeded whether the verbs of a noun are needed, or only its name and summary */
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
  const describe = (needed: (noun: string) => boolean) => createProgram(nouns, needed)
  for (const { name, summary, hidden = false, load } of nouns) {
    const noun = program.command(name, { hidden }).description(summary).helpCommand(false)
    if (isNeeded(name)) (await load())(noun, describe)
  }
  return program
}

function report(error: unknown): number {
  // Commander has already printed the error. If help was requested, the exit code is 0.
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

/** With `--json`, an error is one line of JSON on standard error. */
function reportJson(error: unknown): number {
  if (error instanceof CommanderError && error.exitCode === 0) return 0
  const failure = toFailure(error)
  const { message, details, exitCode } = failure
  const reason = failure.reason || LOCAL_REASONS[exitCode]
  note(jsonText({ error: { reason, message, details, exit_code: exitCode } }))
  return exitCode
}

/** The reasons of errors that do not come from the service, by exit code. */
const LOCAL_REASONS: Readonly<Record<number, string>> = {
  [EXIT.refused]: 'failed',
  [EXIT.usage]: 'usage',
  [EXIT.unreachable]: 'unreachable',
}

function toFailure(error: unknown): Failure {
  if (error instanceof Failure) return error
  const message = error instanceof Error ? error.message : String(error)
  if (!(error instanceof CommanderError)) return new Failure(EXIT.refused, message)
  return new Failure(EXIT.usage, message.replace(/^error: /, ''))
}

/** Whether an error is a bug of this program, such as a TypeError, whose stack is printed. */
function isDefect(error: unknown): error is Error {
  return [TypeError, ReferenceError, SyntaxError, RangeError].some((kind) => error instanceof kind)
}

/** Ends the command when the program that reads its output ends, or when npx ends. */
export function endWithCaller(env: NodeJS.ProcessEnv): void {
  // A reader that closes the pipe early (`| head`) is not an error.
  process.stdout.on('error', ({ code }: NodeJS.ErrnoException) => {
    process.exit(code === 'EPIPE' ? 0 : 1)
  })
  endWithNpx(env)
}

/** How often the parent process is checked. */
const POLL_MS = 250

/**
 * Ends the command by SIGTERM after npx has ended. npx forwards signals to its shell, which ends without forwarding them, so
 * a service would continue to run without a parent.
 */
function endWithNpx(env: NodeJS.ProcessEnv): void {
  const { npm_lifecycle_event: event, npm_lifecycle_script: script = '' } = env
  // The variables of npx are inherited, so also check that npx ran this command and not a program that started it.
  if (event !== 'npx' || !/^['"]?inflow\b/.test(script)) return
  const parent = process.ppid
  const watch = setInterval(() => {
    // The parent of an orphan is process 1. If npx ended very early, that is so from the beginning.
    if (process.ppid === parent && parent !== 1) return
    clearInterval(watch)
    process.kill(process.pid, 'SIGTERM')
  }, POLL_MS)
  watch.unref()
}
