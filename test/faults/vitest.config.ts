import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { common, SLOW_FILES } from '../vitest.config.ts'

/** How much more than `npm test` some tests do. The environment overrides it. */
const COUNTS = {
  SCHEDULES: '500',
  SEQUENCES: '40',
  COPIES: '10000',
}

/** Kills, floods, soaks and long property tests, which take minutes rather than seconds. */
export const FAULT_FILES = [
  'test/faults/**/*.test.ts',
  'test/events/sequencer.test.ts',
  'test/settlement/sequences.test.ts',
  'test/transactions/concurrency.test.ts',
  ...SLOW_FILES,
]

/**
 * The longest files. The first four mostly wait for time-outs of programs or for npm: they leave the cores to the
 * others.
 */
const LONGEST = [
  'faults/patroni',
  'faults/silent-database',
  'clients/npm/package',
  'clients/generated',
  'postgres/plans',
  'ops/deployment-guide',
  'faults/documents',
  'faults/failover',
  'faults/workers-lifecycle',
  'faults/service-shutdown',
  'faults/container',
  'faults/key-rotation',
  'faults/instances',
  'faults/slow-clients',
  'app/metrics',
  'protocols/matrix/errors',
  'protocols/matrix/credentials',
  'console/payments',
  'console/webhooks',
  'console/access',
  'console/operations',
  'openapi/site-browser',
  'settlement/sequences',
  'faults/relay',
  'faults/long-snapshot',
].map((name) => `/test/${name}.test.ts`)

/** Begins with the longest files: none of them is left alone at the end. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    const longest = LONGEST.flatMap((name) => sorted.filter((file) => file.moduleId.endsWith(name)))
    return [...longest, ...sorted.filter((file) => !longest.includes(file))]
  }
}

export default defineConfig({
  test: {
    ...common('faults'),
    // Many wait for time-outs and for processes that start: four would leave the cores idle for a sixth of the time.
    maxWorkers: 5,
    sequence: { sequencer: LongestFirst },
    include: FAULT_FILES,
    env: { ...COUNTS, ...process.env } as Record<string, string>,
  },
})
