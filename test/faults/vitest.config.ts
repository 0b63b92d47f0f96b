import { join } from 'node:path'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { common, SLOW_FILES } from '../vitest.config.ts'

/** How much more than `npm test` some tests do. The environment overrides it. */
const COUNTS = {
  MATRIX: 'full',
  SCHEDULES: '500',
  NOTIFICATIONS: '600',
  SEQUENCES: '40',
  RELAY_EVENTS: '4000',
  EVENTS: '20000',
  FUZZ_REQUESTS: '4000',
  WEBHOOK_PAYMENTS: '3000',
  WEBHOOK_KILLS: '4',
  CONSOLE_PAYMENTS: '4000',
  MODEL_SECONDS: '24',
}

/** Files that take a minute or more, the longest first. */
const LONGEST = [
  'test/faults/patroni.test.ts',
  'test/faults/failover.test.ts',
  'test/faults/silent-database.test.ts',
  'test/faults/upgrade.test.ts',
  'test/faults/replicas/replicas.test.ts',
  'test/faults/key-rotation.test.ts',
].map((file) => join(import.meta.dirname, '../..', file))

/** Begins with the longest files. Otherwise one that begins last runs alone for minutes. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const longest = LONGEST.flatMap((path) => files.filter(({ moduleId }) => moduleId === path))
    const others = files.filter((file) => !longest.includes(file))
    return [...longest, ...(await super.sort(others))]
  }
}

// Kills, floods, soaks and long property tests, which take minutes rather than seconds.
export default defineConfig({
  test: {
    ...common('faults'),
    // Most of them wait: for a failover, a process that starts, a lease that ends. Bounds on time are wide
    // enough for a machine that runs four of them on two cores.
    maxWorkers: 4,
    sequence: { sequencer: LongestFirst },
    include: [
      'test/faults/**/*.test.ts',
      'test/events/sequencer.test.ts',
      'test/model/{money,races,deliveries,banks,access}.test.ts',
      'test/settlement/sequences.test.ts',
      ...SLOW_FILES,
    ],
    env: { ...COUNTS, ...process.env } as Record<string, string>,
    hookTimeout: 120_000,
  },
})
