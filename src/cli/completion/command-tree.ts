import type { Command, Option } from 'commander'

/** What a shell needs to know of one command. */
export interface CommandNode {
  /** The words after "inflow", separated by spaces; empty: inflow itself. */
  readonly path: string
  readonly commands: readonly { readonly name: string; readonly summary: string }[]
  readonly options: readonly CommandOption[]
  /** The values of its operands, where those are fixed. */
  readonly operands: readonly string[]
}

export interface CommandOption {
  /** "--bank", and "-h" where there is a short form. */
  readonly flags: readonly string[]
  readonly summary: string
  readonly takesValue: boolean
  /** The values, where those are fixed. */
  readonly choices: readonly string[]
}

/** Describes a command and all below it, as help lists them. */
export function commandTree(command: Command, path = ''): CommandNode[] {
  const help = command.createHelp()
  const commands = help.visibleCommands(command)
  const node: CommandNode = {
    path,
    commands: commands.map((each) => ({ name: each.name(), summary: each.description() })),
    options: help.visibleOptions(command).map(describe),
    operands: command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? []),
  }
  const below = command.commands.filter((each) => commands.includes(each))
  return [
    node,
    ...below.flatMap((each) => commandTree(each, path ? `${path} ${each.name()}` : each.name())),
  ]
}

function describe({ short, long, description, required, optional, argChoices }: Option) {
  return {
    // The short form of `--url, --service-url` is a long one.
    flags: [long, short].filter((flag) => flag !== undefined),
    summary: description,
    takesValue: required || optional,
    choices: argChoices ?? [],
  }
}
