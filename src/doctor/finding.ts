/** How bad it is: `fail` is or soon will be a loss of service or of secrets. */
export type Level = 'ok' | 'warn' | 'fail'

/** What was looked at, in the order in which it is told. */
export type Area =
  | 'Settings'
  | 'Data folder'
  | 'Database'
  | 'Encryption'
  | 'Events'
  | 'Banks'
  | 'Settlement'
  | 'Service'

/** One thing that was looked at. */
export interface Finding {
  readonly area: Area
  readonly level: Level
  /** What was found, in one line. */
  readonly found: string
  /** What to do; empty when there is nothing to do. */
  readonly advice: string
}

/** Collects the findings of one area. */
export function createFindings(area: Area) {
  const all: Finding[] = []
  const add = (level: Level) => (found: string, advice: string) =>
    void all.push({ area, level, found, advice })
  return {
    all: all as readonly Finding[],
    ok: (found: string) => void all.push({ area, level: 'ok', found, advice: '' }),
    warn: add('warn'),
    fail: add('fail'),
  }
}
