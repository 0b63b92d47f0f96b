import pino, { type Logger } from 'pino'

/** A log that a test reads. */
export interface CapturedLog {
  readonly log: Logger
  text(): string
  lines(): Record<string, unknown>[]
}

export function listen(): CapturedLog {
  const lines: string[] = []
  return {
    log: pino({ level: 'info' }, { write: (line) => void lines.push(line) }),
    text: () => lines.join(''),
    lines: () => lines.map((line) => JSON.parse(line)),
  }
}
