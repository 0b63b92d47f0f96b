import type { ChildProcess } from 'node:child_process'

/** A connection on its way to a worker: a handle of Node's. */
interface Handle {
  /** -1: closed here, as the worker has it. */
  readonly fd: number
  close(): void
}

/**
 * Closes the connection that a worker was being handed when it was killed. node:cluster waits for
 * the worker's word on it for ever, and so would its client, who sees an open connection.
 *
 * @returns to be called when the worker has ended
 */
export function watchHandOver(worker: ChildProcess): () => void {
  // At most one of each door: the next is handed over when the worker has taken the last.
  let underWay: Handle[] = []
  const send = worker.send.bind(worker) as (...args: unknown[]) => boolean
  worker.send = (...args: unknown[]) => {
    const handle = args[1]
    if (isHandle(handle)) underWay = [...underWay.filter(({ fd }) => fd !== -1), handle]
    return send(...args)
  }
  return () => {
    for (const handle of underWay) if (handle.fd !== -1) handle.close()
    underWay = []
  }
}

function isHandle(value: unknown): value is Handle {
  return typeof value === 'object' && value !== null && 'fd' in value && 'close' in value
}
