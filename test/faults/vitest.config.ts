import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { common, SLOW_FILES } from '../vitest.config.ts'

/** How much more than `npm test` some tests do. The environment overrides it. */
const COUNTS = {
  SCHEDULES: '500',
  COPIES: '10000',
}

/** Kills, floods, soaks and long property tests, which take minutes rather than seconds. */
export const FAULT_FILES = [
  'test/faults/**/*.test.ts',
  'test/events/sequencer.test.ts',
  'test/transactions/concurrency.test.ts',
  ...SLOW_FILES,
]

/**
 * The longest files. Those that mostly wait for time-outs of programs, or for npm, come first: they leave the cores to
 * the others.
 */
const LONGEST = [
  'faults/patroni',
  'faults/silent-database',
  'clients/npm/package',
  'ops/deployment-guide',
  'faults/failover',
  'postgres/plans',
  'clients/generated',
  'faults/documents',
  'faults/service-shutdown',
  'faults/container',
  'faults/workers-lifecycle',
  'console/payouts',
  'console/access',
  'protocols/matrix/errors',
  'faults/key-rotation',
  'console/payments',
  'console/operations',
  'console/webhooks',
  'faults/payouts',
  'faults/instances',
  'app/main',
  'faults/replicas/replicas',
  'transactions/concurrency',
  'faults/replicas/webhooks',
  'faults/hostile-grpc',
  'faults/slow-clients',
  'payouts/payouts',
  'faults/embedded-lifecycle',
  'openapi/site-browser',
  'faults/notifications',
  'console/portal',
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
    // Many wait for time-outs and for processes that start: with five, two cores were idle for a quarter of the time.
    maxWorkers: 5,
    sequence: { sequencer: LongestFirst },
    include: FAULT_FILES,
    env: { ...COUNTS, ...process.env } as Record<string, string>,
  },
})
