import { Argument, type Command } from 'commander'
import { print } from '../output.ts'
import { bashScript } from './bash.ts'
import { type CommandNode, commandTree } from './command-tree.ts'
import { fishScript } from './fish.ts'
import { zshScript } from './zsh.ts'

const SCRIPTS: Readonly<Record<string, (tree: readonly CommandNode[]) => string>> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
}

/** `inflow completion`. @param describeAll describes all commands, with their verbs */
export function completion(noun: Command, describeAll: () => Promise<Command>): void {
  noun
    .addArgument(new Argument('<shell>', 'the shell').choices(Object.keys(SCRIPTS)))
    .helpOption('-h, --help', 'show help')
    .addHelpText('after', '\nExample:\n  source <(inflow completion bash)')
    .action(async (shell: string) => {
      const script = SCRIPTS[shell]?.(commandTree(await describeAll()))
      if (script !== undefined) print(script.trimEnd())
    })
}
