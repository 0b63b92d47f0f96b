/** The severity: `fail` means that the service is down or secrets are exposed, or soon will be. */
export type Level = 'ok' | 'warn' | 'fail'

/** The area of a check, in the order of the report. */
export type Area =
  | 'Settings'
  | 'Data folder'
  | 'Database'
  | 'Upgrade'
  | 'Backups'
  | 'Encryption'
  | 'Events'
  | 'Relay'
  | 'Banks'
  | 'Settlement'
  | 'Payouts'
  | 'Webhooks'
  | 'Service'

/** The result of one check. */
export interface Finding {
  readonly area: Area
  readonly level: Level
  /** The finding, in one line. */
  readonly found: string
  /** The recommended action of the operator; empty: none. */
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
