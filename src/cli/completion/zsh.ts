import { quote } from './bash.ts'
import type { CommandNode } from './command-tree.ts'

/** The script for zsh: `source <(inflow completion zsh)`, or a file `_inflow` in its `fpath`. */
export function zshScript(tree: readonly CommandNode[]): string {
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
${valuesOf(tree).join('\n')}
  esac
  case $command_path in
${tree.map(wordsOf).join('\n')}
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
function valuesOf(tree: readonly CommandNode[]): string[] {
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

function wordsOf({ path, commands, options, operands }: CommandNode): string {
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
