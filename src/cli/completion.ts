import { Argument, type Command, type Option } from 'commander'
import { print } from './output.ts'

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

/** What a shell needs to know of one command. */
export interface CommandNode {
  /** The words after "inflow", separated by spaces; empty: inflow itself. */
  readonly path: string
  readonly commands: readonly { readonly name: string; readonly summary: string }[]
  readonly options: readonly CommandOption[]
  /** The values of its operands, where those are fixed. */
  readonly operands: readonly string[]
}

interface CommandOption {
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

/** The script for bash: `source <(inflow completion bash)`. */
function bashScript(tree: readonly CommandNode[]): string {
  const paths = tree.map(({ path }) => path).filter((path) => path !== '')
  const words = tree.map(({ path, commands, options, operands }) => {
    const all = [...commands.map(({ name }) => name), ...operands, ...options.flatMap(flagsOf)]
    return `    ${quote(path)}) words=${quote(all.join(' '))} ;;`
  })
  return `# Completes inflow in bash. Load it with: source <(inflow completion bash)
_inflow() {
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD - 1]}
  local path='' candidate words='' i
  # Bash takes --bank=9PSB for three words.
  if [[ $current == = ]]; then
    current=''
  elif [[ $previous == = ]]; then
    previous=\${COMP_WORDS[COMP_CWORD - 2]}
  fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    candidate="\${path:+$path }\${COMP_WORDS[i]}"
    case $candidate in
    ${paths.map(quote).join(' | ')}) path=$candidate ;;
    esac
  done
  COMPREPLY=()
  case "$path:$previous" in
${bashValues(tree).join('\n')}
  esac
  case $path in
${words.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _inflow inflow
`
}

/** A case for each option that takes a value. Without choices, bash completes the names of files. */
function bashValues(tree: readonly CommandNode[]): string[] {
  return tree.flatMap(({ path, options }) =>
    options
      .filter(({ takesValue }) => takesValue)
      .map(({ flags, choices }) => {
        const patterns = flags.map((flag) => quote(`${path}:${flag}`)).join(' | ')
        if (choices.length === 0) return `  ${patterns}) return ;;`
        const words = quote(choices.join(' '))
        return `  ${patterns}) COMPREPLY=($(compgen -W ${words} -- "$current")); return ;;`
      }),
  )
}

const flagsOf = ({ flags }: CommandOption): readonly string[] => flags

/** Quotes a text for bash and zsh. */
function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}

/** The script for zsh: `source <(inflow completion zsh)`, or a file `_inflow` in its `fpath`. */
function zshScript(tree: readonly CommandNode[]): string {
  const paths = tree.map(({ path }) => path).filter((path) => path !== '')
  return `#compdef inflow
# Completes inflow in zsh. Load it with: source <(inflow completion zsh)
_inflow() {
  local command_path='' candidate word
  local -a found
  for word in "\${(@)words[2,CURRENT-1]}"; do
    candidate="\${command_path:+$command_path }$word"
    case $candidate in
    (${paths.map(quote).join(' | ')}) command_path=$candidate ;;
    esac
  done
  case "$command_path:\${words[CURRENT-1]}" in
${zshValues(tree).join('\n')}
  esac
  case $command_path in
${tree.map(zshWords).join('\n')}
  esac
  _describe inflow found
}
if [[ \${funcstack[1]} == _inflow ]]; then
  _inflow "$@"
else
  compdef _inflow inflow
fi
`
}

/** A case for each option that takes a value: its choices, else the names of files. */
function zshValues(tree: readonly CommandNode[]): string[] {
  return tree.flatMap(({ path, options }) =>
    options
      .filter(({ takesValue }) => takesValue)
      .map(({ flags, choices }) => {
        const patterns = flags.map((flag) => quote(`${path}:${flag}`)).join(' | ')
        if (choices.length === 0) return `  (${patterns}) _files; return ;;`
        const values = choices.map((choice) => described(choice)).join(' ')
        return `  (${patterns}) found=(${values}); _describe value found; return ;;`
      }),
  )
}

function zshWords({ path, commands, options, operands }: CommandNode): string {
  const found = [
    ...commands.map(({ name, summary }) => described(name, summary)),
    ...operands.map((operand) => described(operand)),
    ...options.flatMap(({ flags, summary }) => flags.map((flag) => described(flag, summary))),
  ]
  return `  (${quote(path)}) found=(${found.join(' ')}) ;;`
}

/** A word and its description, as _describe takes them. */
function described(word: string, summary = ''): string {
  const name = word.replaceAll(':', '\\:')
  return quote(summary === '' ? name : `${name}:${summary}`)
}

/** The script for fish: `inflow completion fish | source`. */
function fishScript(tree: readonly CommandNode[]): string {
  const paths = tree.map(({ path }) => path).filter((path) => path !== '')
  return `# Completes inflow in fish. Load it with: inflow completion fish | source
function __inflow_complete
  set -l words (commandline -opc)
  set -l command_path ''
  for word in $words[2..]
    set -l candidate (string trim -- "$command_path $word")
    if contains -- $candidate ${paths.map(quoteForFish).join(' ')}
      set command_path $candidate
    end
  end
  switch "$command_path:$words[-1]"
${fishValues(tree).join('\n')}
  end
  switch $command_path
${tree.map(fishWords).join('\n')}
  end
end
complete -c inflow -f -a '(__inflow_complete)'
`
}

/** A case for each option that takes a value: its choices, else the names of files. */
function fishValues(tree: readonly CommandNode[]): string[] {
  return tree.flatMap(({ path, options }) =>
    options
      .filter(({ takesValue }) => takesValue)
      .map(({ flags, choices }) => {
        const patterns = flags.map((flag) => quoteForFish(`${path}:${flag}`)).join(' ')
        const values = choices.map(quoteForFish).join(' ')
        const found =
          choices.length === 0
            ? '__fish_complete_path (commandline -ct)'
            : `printf '%s\\n' ${values}`
        return `    case ${patterns}\n      ${found}\n      return`
      }),
  )
}

/** Words and their descriptions, which fish shows beside them. */
function fishWords({ path, commands, options, operands }: CommandNode): string {
  const found = [
    ...commands.map(({ name, summary }) => [name, summary]),
    ...operands.map((operand) => [operand, '']),
    ...options.flatMap(({ flags, summary }) => flags.map((flag) => [flag, summary])),
  ]
  const words = found.flat().map(quoteForFish).join(' ')
  return `    case ${quoteForFish(path)}\n      printf '%s\\t%s\\n' ${words}`
}

function quoteForFish(text = ''): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}
