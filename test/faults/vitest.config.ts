import { defineConfig } from 'vitest/config'
import { common, SLOW_FILES } from '../vitest.config.ts'

/** How much more than `npm test` some tests do. The environment overrides it. */
const COUNTS = {
  SCHEDULES: '500',
  SEQUENCES: '40',
  MODEL_SECONDS: '24',
}

/** All files of the run: kills, floods, soaks and long property tests, which take minutes rather than seconds. */
export const FAULT_FILES = [
  'test/faults/**/*.test.ts',
  'test/events/sequencer.test.ts',
  'test/model/{money,races,deliveries,banks,access}.test.ts',
  'test/settlement/sequences.test.ts',
  ...SLOW_FILES,
]

export default defineConfig({
  test: {
    ...common('faults'),
    // Some need a core for their load and one for the service.
    maxWorkers: 2,
    include: FAULT_FILES,
    env: { ...COUNTS, ...process.env } as Record<string, string>,
    hookTimeout: 120_000,
  },
})
