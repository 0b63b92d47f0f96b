import { type Command, Option } from 'commander'

/** How an option is parsed; without a rule, its text is used unchanged. */
export interface OptionRule {
  /** Parses the text; `before` is the result of the option's earlier values. @throws InvalidArgumentError */
  readonly read?: ((text: string, before: never) => unknown) | undefined
  readonly choices?: readonly string[] | undefined
  readonly default?: string
  /** The conflicting options, by their names in camelCase. */
  readonly conflicts?: string | readonly string[] | undefined
}

/** The rules of some options, by their names in camelCase, or of each option. */
type OptionRules = Readonly<Record<string, OptionRule>> | ((option: Option) => OptionRule)

/** Adds an action to a command. It passes the rules of its options to `describe`, which returns the command. */
export type Verb = (describe: (rules: OptionRules) => Command) => void

/** A verb that needs no service. */
export const local =
  <Operands extends unknown[]>(
    action: (...operands: Operands) => void | Promise<void>,
    rules: OptionRules = {},
  ): Verb =>
  (describe) => {
    describe(rules).action(action as (...operands: unknown[]) => void | Promise<void>)
  }

/** A verb that calls a stream or several methods of the service. @param action created by `serviceAction` */
export const calling =
  (action: (...operands: unknown[]) => Promise<void>, rules: OptionRules = {}): Verb =>
  (describe) => {
    addServiceOptions(describe(rules)).action(action)
  }

/**
 * Adds the verbs that a help text describes, with a line each for the summary, operands, options and example of a verb:
 *
 *     add: add a holiday, or rename an existing one
 *     <day>  YYYY-MM-DD
 *     --name <text>!  the name of the holiday
 *     Example: holiday add 2026-12-25 --name "Christmas Day"
 *
 * Two spaces end the flags of an option, `!` makes the option mandatory, and an empty line ends a verb.
 */
export function addVerbs(noun: Command, help: string, verbs: Readonly<Record<string, Verb>>): void {
  const texts = help.trim().split(/\n\s*\n/)
  for (const text of texts) {
    const [, name = '', summary = '', rest = ''] =
      /^\s*([a-z-]+): ([^\n]+)\n(.*)$/s.exec(text) ?? []
    const verb = verbs[name] ?? defect('no verb', text)
    verb((rules) => describe(noun.command(name).description(summary), rest, rules))
  }
  if (texts.length !== Object.keys(verbs).length) defect('too few verbs', help)
}

/** Turns a noun without verbs into a command. Its text may have remarks after an empty line, before the example. */
export function describeNoun(noun: Command, verb: Verb, help: string): void {
  verb((rules) => describe(noun, help, rules))
}

/** Adds the operands, options and example of a help text to a command. */
function describe(command: Command, help: string, rules: OptionRules = {}): Command {
  const [text = '', example = ''] = `\n${help.trim()}`.split(/\n\s*Example: /)
  const [lines = '', ...remarks] = text.trim().split(/\n\s*\n/)
  for (const line of lines.split('\n').map((each) => each.trim())) {
    if (line === '') continue
    const [, flags = '', mandatory, about = ''] =
      /^(\S.*?)(!?) {2,}(\S.*)$/.exec(line) ?? defect('no option', line)
    if (flags.startsWith('-')) {
      const option = new Option(flags, about).makeOptionMandatory(mandatory === '!')
      const rule = typeof rules === 'function' ? rules(option) : rules[option.attributeName()]
      command.addOption(applyRule(option, rule))
    } else command.argument(flags, about)
  }
  if (typeof rules !== 'function') requireFlags(command, rules)
  if (example === '') return command
  const said = remarks.map((each) => `\n${each.replace(/^\s+/gm, '')}\n`).join('')
  const continued = example.trim().replace(/\n\s*/g, '\n    ')
  return command.addHelpText('after', `${said}\nExample:\n  inflow ${continued}`)
}

function applyRule(option: Option, rule: OptionRule = {}): Option {
  const { read, choices, conflicts, default: value } = rule
  if (choices) option.choices([...choices])
  if (read) option.argParser(read as (text: string, before: unknown) => unknown)
  if (conflicts) option.conflicts([conflicts].flat())
  return value === undefined ? option : option.default(value)
}

/** Fails if a rule does not belong to any flag. */
export function requireFlags(command: Command, rules: object): void {
  const known = command.options.map((option) => option.attributeName())
  for (const name of Object.keys(rules)) if (!known.includes(name)) defect('no flag', name)
}

function defect(what: string, where: string): never {
  throw new TypeError(`a help text has ${what}: ${where}`)
}

/** Adds the options of a service call. A verb's own `--url` and `--profile` have another meaning. */
function addServiceOptions(verb: Command): Command {
  const unlessTaken = (flag: string) =>
    verb.options.some((option) => option.long === flag) ? '' : `${flag}, `
  return describe(
    verb,
    `
    ${unlessTaken('--url')}--service-url <url>  gRPC URL of the service (default: INFLOW_GRPC_URL, else the local service)
    ${unlessTaken('--profile')}--service-profile <name>  a profile of \`inflow login\` (default: INFLOW_PROFILE; the one in use if nothing else names a service)
    --token-file <path>  file of an internal token (default: INFLOW_TOKEN or INFLOW_TOKEN_FILE, else the token of the local service)
    --token <token>  the token itself, which others on the machine can see here
    --json  print the response of the service as JSON`,
  )
}
