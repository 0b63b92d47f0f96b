import type { CommandNode } from './command-tree.ts'

/** The script for fish: `inflow completion fish | source`. */
export function fishScript(tree: readonly CommandNode[]): string {
  const paths = tree.map(({ path }) => path).filter((path) => path !== '')
  return `# Completes inflow in fish. Load it with: inflow completion fish | source
function __inflow_complete
  set -l words (commandline -opc)
  set -l command_path ''
  for word in $words[2..]
    set -l candidate (string trim -- "$command_path $word")
    if contains -- $candidate ${paths.map(quote).join(' ')}
      set command_path $candidate
    end
  end
  switch "$command_path:$words[-1]"
${valuesOf(tree).join('\n')}
  end
  switch $command_path
${tree.map(wordsOf).join('\n')}
  end
end
complete -c inflow -f -a '(__inflow_complete)'
`
}

/** A case for each option that takes a value: its choices, else the names of files. */
function valuesOf(tree: readonly CommandNode[]): string[] {
  return tree.flatMap(({ path, options }) =>
    options
      .filter(({ takesValue }) => takesValue)
      .map(({ flags, choices }) => {
        const patterns = flags.map((flag) => quote(`${path}:${flag}`)).join(' ')
        const values = choices.map(quote).join(' ')
        const found =
          choices.length === 0
            ? '__fish_complete_path (commandline -ct)'
            : `printf '%s\\n' ${values}`
        return `    case ${patterns}\n      ${found}\n      return`
      }),
  )
}

/** Words and their descriptions, which fish shows beside them. */
function wordsOf({ path, commands, options, operands }: CommandNode): string {
  const found = [
    ...commands.map(({ name, summary }) => [name, summary]),
    ...operands.map((operand) => [operand, '']),
    ...options.flatMap(({ flags, summary }) => flags.map((flag) => [flag, summary])),
  ]
  const words = found.flat().map(quote).join(' ')
  return `    case ${quote(path)}\n      printf '%s\\t%s\\n' ${words}`
}

function quote(text = ''): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}
