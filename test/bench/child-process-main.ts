import type { ChildMessage } from './child-process.ts'

interface Opened<Ready, Command, Output> {
  readonly ready: Ready
  /** Runs one command of the parent; there is one at a time. */
  run?(command: Command): Promise<Output>
}

/** The child's side of `startChildProcess`. The child ends with its parent. */
export function childProcessMain<Options, Ready, Command, Output>(
  open: (options: Options) => Promise<Opened<Ready, Command, Output>>,
): void {
  const send = (message: ChildMessage) => process.send?.(message)
  let opened: Opened<Ready, Command, Output> | undefined
  const onMessage = async (message: unknown): Promise<void> => {
    if (opened === undefined) {
      opened = await open((message as { options: Options }).options)
      send({ kind: 'ready', value: opened.ready })
    } else {
      const value = await opened.run?.((message as { command: Command }).command)
      send({ kind: 'output', value })
    }
  }
  process.on('disconnect', () => process.exit(0))
  process.on('message', (message) => {
    onMessage(message).catch((error: unknown) => {
      send({ kind: 'failure', text: error instanceof Error ? `${error.stack}` : String(error) })
    })
  })
}
