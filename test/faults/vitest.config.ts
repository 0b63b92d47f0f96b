import { defineConfig } from 'vitest/config'
import { common, SLOW_FILES } from '../vitest.config.ts'

/** Runs of the property tests, more than in `npm test`. The environment overrides them. */
const COUNTS = {
  SCHEDULES: '3000',
  SEQUENCES: '500',
}

// Kills, floods, soaks and long property tests, which take minutes rather than seconds.
export default defineConfig({
  test: {
    ...common('faults'),
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
