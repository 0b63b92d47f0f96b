import type { Told } from './program.ts'

interface Opened<Ready, Command, Answer> {
  readonly ready: Ready
  /** Does one thing that the parent asks for, one at a time. */
  run?(command: Command): Promise<Answer>
}

/** The child's side of `startProgram`. It ends with its parent. */
export function asProgram<Options, Ready, Command, Answer>(
  open: (options: Options) => Promise<Opened<Ready, Command, Answer>>,
): void {
  const tell = (told: Told) => process.send?.(told)
  let opened: Opened<Ready, Command, Answer> | undefined
  const hear = async (message: unknown): Promise<void> => {
    if (opened === undefined) {
      opened = await open((message as { options: Options }).options)
      tell({ kind: 'ready', value: opened.ready })
    } else {
      const value = await opened.run?.((message as { command: Command }).command)
      tell({ kind: 'answer', value })
    }
  }
  process.on('disconnect', () => process.exit(0))
  process.on('message', (message) => {
    hear(message).catch((error: unknown) => {
      tell({ kind: 'failure', text: error instanceof Error ? `${error.stack}` : String(error) })
    })
  })
}
