import { defineConfig } from 'vitest/config'
import { common, SLOW_FILES } from '../vitest.config.ts'

/** How much more than `npm test` some tests do. The environment overrides it. */
const COUNTS = {
  MATRIX: 'full',
  SCHEDULES: '1000',
  NOTIFICATIONS: '1000',
  SEQUENCES: '60',
  RELAY_EVENTS: '5000',
  EVENTS: '30000',
  FUZZ_REQUESTS: '6000',
  WEBHOOK_PAYMENTS: '5000',
  WEBHOOK_KILLS: '5',
}

// Kills, floods, soaks and long property tests, which take minutes rather than seconds.
export default defineConfig({
  test: {
    ...common('faults'),
    // Some need a core for their load and one for the service.
    maxWorkers: 2,
    include: [
      'test/faults/**/*.test.ts',
      'test/events/sequencer.test.ts',
      'test/settlement/sequences.test.ts',
      ...SLOW_FILES,
    ],
    env: { ...COUNTS, ...process.env } as Record<string, string>,
    hookTimeout: 120_000,
  },
})
