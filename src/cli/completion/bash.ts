import type { CommandNode, CommandOption } from './command-tree.ts'

/** The script for bash: `source <(inflow completion bash)`. */
export function bashScript(tree: readonly CommandNode[]): string {
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
${valuesOf(tree).join('\n')}
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
function valuesOf(tree: readonly CommandNode[]): string[] {
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
export function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
