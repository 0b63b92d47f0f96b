import pino, { type Logger } from 'pino'

/** A log that a test reads. */
export interface CapturedLog {
  readonly log: Logger
  /** The lines so far, parsed. */
  readonly lines: Record<string, unknown>[]
}

export function captureLog(level = 'info'): CapturedLog {
  const lines: Record<string, unknown>[] = []
  const log = pino({ level }, { write: (line: string) => void lines.push(JSON.parse(line)) })
  return { log, lines }
}
