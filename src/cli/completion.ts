import { Argument, type Command, type Option } from 'commander'
import { completeIds, listOf } from './complete-ids.ts'
import { print } from './output.ts'

/** The parts of the completion script of a shell: its cases, and the script around them. */
interface Shell {
  quote(text: string): string
  /** A case for an option with a value: completes its choices, the latest ids, or otherwise file names. */
  value(patterns: readonly string[], choices: readonly string[], takesId: boolean): string
  /** A case for the words that may follow a command, with their summaries. @param takesId whether ids may follow too */
  words(
    path: string,
    found: readonly (readonly [word: string, summary: string])[],
    takesId: boolean,
  ): string
  script(paths: readonly string[], values: string, words: string): string
}

/**
 * `inflow completion`. The script contains all verbs and options. For ids, which only the service knows, it calls
 * `inflow completion <shell> -- <words before>`, which prints a line for each id: the id, a tab, its summary.
 *
 * @param describe describes all commands, with the verbs of the nouns that are needed
 */
export function completion(
  noun: Command,
  describe: (isNeeded: (noun: string) => boolean) => Promise<Command>,
): void {
  noun
    .addArgument(new Argument('<shell>', 'the shell').choices(Object.keys(SHELLS)))
    .helpOption('-h, --help', 'show help')
    .addHelpText('after', '\nExample:\n  source <(inflow completion bash)')
    .allowExcessArguments()
    .action(async (shell: string, _options: object, { args: [, ...words] }: Command) => {
      if (words.length > 0) {
        const ids = await completeIds(await describe((name) => name === words[0]), words)
        for (const { id, summary } of ids) print(`${id}\t${summary}`)
        return
      }
      const script = scriptOf(SHELLS[shell] as Shell, commandTree(await describe(() => true)))
      print(script.trimEnd())
    })
}

/** The properties of a command that the script of a shell needs. */
export interface CommandNode {
  /** The words after "inflow", separated by spaces; empty: inflow itself. */
  readonly path: string
  readonly commands: readonly { readonly name: string; readonly summary: string }[]
  readonly options: readonly Option[]
  /** The values of operands with fixed choices. */
  readonly operands: readonly string[]
  /** Whether an operand is an id that the service can list. */
  readonly takesId: boolean
}

/** Describes a command and its subcommands in the order of the help text. */
export function commandTree(command: Command, path = ''): CommandNode[] {
  const help = command.createHelp()
  const commands = help.visibleCommands(command)
  const node: CommandNode = {
    path,
    commands: commands.map((each) => ({ name: each.name(), summary: each.description() })),
    options: help.visibleOptions(command),
    operands: command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? []),
    takesId: command.registeredArguments.some((operand) => listOf(operand) !== undefined),
  }
  const below = command.commands.filter((each) => commands.includes(each))
  return [
    node,
    ...below.flatMap((each) => commandTree(each, path ? `${path} ${each.name()}` : each.name())),
  ]
}

/** "--bank", and the short form if there is one, such as "-h". */
export function flagsOf({ long, short }: Option): string[] {
  // Of `--url, --service-url`, Commander calls `--url` the short form.
  return [long, short].filter((flag) => flag !== undefined)
}

function scriptOf({ quote, value, words, script }: Shell, tree: readonly CommandNode[]): string {
  const paths = tree.map(({ path }) => quote(path)).slice(1)
  const values = tree.flatMap(({ path, options }) =>
    options
      .filter(({ required, optional }) => required || optional)
      .map((option) => {
        const patterns = flagsOf(option).map((flag) => quote(`${path}:${flag}`))
        return value(patterns, option.argChoices ?? [], listOf(option) !== undefined)
      }),
  )
  const followers = tree.map(({ path, commands, options, operands, takesId }) => {
    const found = [
      ...commands.map(({ name, summary }) => [name, summary] as const),
      ...operands.map((operand) => [operand, ''] as const),
      ...options.flatMap((each) => flagsOf(each).map((flag) => [flag, each.description] as const)),
    ]
    return words(path, found, takesId)
  })
  return script(paths, values.join('\n'), followers.join('\n'))
}

/** Quotes a text for bash and zsh. */
const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

const quoteForFish = (text: string) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`

/** `source <(inflow completion bash)` */
const BASH: Shell = {
  quote,
  value(patterns, choices, takesId) {
    const words = quote(choices.join(' '))
    const reply = `COMPREPLY=($(compgen -W ${words} -- "$current")); `
    const complete = takesId ? '_inflow_ids; ' : choices.length === 0 ? '' : reply
    return `  ${patterns.join(' | ')}) ${complete}return ;;`
  },
  words(path, found, takesId) {
    const words = `words=${quote(found.map(([word]) => word).join(' '))}`
    return `    ${quote(path)}) ${words}${takesId ? '; [[ $current == -* ]] || _inflow_ids' : ''} ;;`
  },
  script: (
    paths,
    values,
    words,
  ) => `# Completes inflow in bash. Load it with: source <(inflow completion bash)
_inflow_ids() {
  local words_before id
  printf -v words_before ' %q' "\${COMP_WORDS[@]:1:COMP_CWORD-1}"
  # Without ids, names of files are none.
  compopt +o default 2>/dev/null
  # An alias is a command too. What the service returns is never evaluated.
  while IFS=$'\\t' read -r id _; do
    [[ $id == "$current"* ]] && COMPREPLY+=("$id")
  done < <(eval "\${COMP_WORDS[0]} completion bash --$words_before" 2>/dev/null </dev/null)
}
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
    ${paths.join(' | ')}) path=$candidate ;;
    esac
  done
  COMPREPLY=()
  case "$path:$previous" in
${values}
  esac
  case $path in
${words}
  esac
  COMPREPLY+=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _inflow inflow
`,
}

/** `source <(inflow completion zsh)`, or a file `_inflow` in its `fpath` */
const ZSH: Shell = {
  quote,
  value(patterns, choices, takesId) {
    const found = choices.map((choice) => describedForZsh(choice)).join(' ')
    const described = `found=(${found}); _describe value found`
    const ids = '_inflow_ids; _describe id found'
    const complete = takesId ? ids : choices.length === 0 ? '_files' : described
    return `  (${patterns.join(' | ')}) ${complete}; return ;;`
  },
  words(path, found, takesId) {
    const words = `found=(${found.map((each) => describedForZsh(...each)).join(' ')})`
    const ids = takesId ? '; [[ $words[CURRENT] == -* ]] || _inflow_ids' : ''
    return `  (${quote(path)}) ${words}${ids} ;;`
  },
  script: (paths, values, words) => `#compdef inflow
# Completes inflow in zsh. Load it with: source <(inflow completion zsh)
_inflow_ids() {
  local inflow=\${aliases[\${words[1]}]:-\${words[1]}} line
  # What the service returns is never evaluated.
  for line in "\${(@f)$(eval "$inflow completion zsh -- \${(@q)words[2,CURRENT-1]}" 2>/dev/null </dev/null)}"; do
    [[ -n $line ]] && found+=("\${line/$'\\t'/:}")
  done
}
_inflow() {
  local command_path='' candidate word
  local -a found
  for word in "\${(@)words[2,CURRENT-1]}"; do
    candidate="\${command_path:+$command_path }$word"
    case $candidate in
    (${paths.join(' | ')}) command_path=$candidate ;;
    esac
  done
  case "$command_path:\${words[CURRENT-1]}" in
${values}
  esac
  case $command_path in
${words}
  esac
  _describe inflow found
}
if [[ \${funcstack[1]} == _inflow ]]; then
  _inflow "$@"
else
  compdef _inflow inflow
fi
`,
}

/** A word and its description in the form that `_describe` of zsh takes. */
function describedForZsh(word: string, summary = ''): string {
  const name = word.replaceAll(':', '\\:')
  return quote(summary === '' ? name : `${name}:${summary}`)
}

/** `inflow completion fish | source` */
const FISH: Shell = {
  quote: quoteForFish,
  value(patterns, choices, takesId) {
    const values = `printf '%s\\n' ${choices.map(quoteForFish).join(' ')}`
    const files = '__fish_complete_path (commandline -ct)'
    const found = takesId ? '__inflow_ids $words' : choices.length === 0 ? files : values
    return `    case ${patterns.join(' ')}\n      ${found}\n      return`
  },
  words(path, found, takesId) {
    const words = `printf '%s\\t%s\\n' ${found.flat().map(quoteForFish).join(' ')}`
    const ids = "\n      string match -q -- '-*' (commandline -ct); or __inflow_ids $words"
    return `    case ${quoteForFish(path)}\n      ${words}${takesId ? ids : ''}`
  },
  script: (
    paths,
    values,
    words,
  ) => `# Completes inflow in fish. Load it with: inflow completion fish | source
function __inflow_ids
  $argv[1] completion fish -- $argv[2..] 2>/dev/null </dev/null
end
function __inflow_complete
  set -l words (commandline -opc)
  set -l command_path ''
  for word in $words[2..]
    set -l candidate (string trim -- "$command_path $word")
    if contains -- $candidate ${paths.join(' ')}
      set command_path $candidate
    end
  end
  switch "$command_path:$words[-1]"
${values}
  end
  switch $command_path
${words}
  end
end
complete -c inflow -f -a '(__inflow_complete)'
`,
}

const SHELLS: Readonly<Record<string, Shell>> = { bash: BASH, zsh: ZSH, fish: FISH }
