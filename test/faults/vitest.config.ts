import { defineConfig } from 'vitest/config'
import { common, SLOW_FILES } from '../vitest.config.ts'

/** How much more than `npm test` some tests do. The environment overrides it. */
const COUNTS = {
  MATRIX: 'full',
  SCHEDULES: '1000',
  SEQUENCES: '100',
  RELAY_EVENTS: '10000',
  EVENTS: '50000',
  FUZZ_REQUESTS: '10000',
  WEBHOOK_PAYMENTS: '8000',
  WEBHOOK_KILLS: '8',
}

// Kills, floods, soaks and long property tests, which take minutes rather than seconds.
export default defineConfig({
  test: {
    ...common('faults'),
    include: [
      'test/faults/**/*.test.ts',
      'test/events/sequencer.test.ts',
      'test/protocols/matrix/credentials.test.ts',
      'test/settlement/sequences.test.ts',
      ...SLOW_FILES,
    ],
    env: { ...COUNTS, ...process.env } as Record<string, string>,
    hookTimeout: 120_000,
  },
})
