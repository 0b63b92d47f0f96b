import { defineConfig } from 'vitest/config'
import { common } from '../vitest.config.ts'

/** Counts of the property tests, of which `npm test` runs few. Those of the environment come first. */
const COUNTS = {
  SCHEDULES: '3000',
  SEQUENCES: '500',
}

// Kills, floods, soaks and long runs of property tests: what takes minutes rather than seconds.
export default defineConfig({
  test: {
    ...common('faults'),
    include: [
      'test/faults/**/*.test.ts',
      'test/events/sequencer.test.ts',
      'test/settlement/sequences.test.ts',
    ],
    env: { ...COUNTS, ...process.env } as Record<string, string>,
    hookTimeout: 120_000,
  },
})
