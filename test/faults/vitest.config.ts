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

/** Files that mostly wait: for a failover, an end of a process or a timeout. The longest come first. */
const WAITING_FILES = [
  'test/faults/patroni.test.ts',
  'test/faults/failover.test.ts',
  'test/faults/silent-database.test.ts',
  'test/faults/replicas/replicas.test.ts',
  'test/faults/upgrade.test.ts',
  'test/faults/service-shutdown.test.ts',
  'test/faults/workers-lifecycle.test.ts',
  'test/faults/embedded-lifecycle.test.ts',
  'test/faults/embedded.test.ts',
  'test/faults/embedded-death.test.ts',
  'test/faults/embedded-move.test.ts',
  'test/faults/graceful-stop.test.ts',
  'test/faults/replicas/freshness.test.ts',
  'test/faults/tail-restart.test.ts',
  'test/faults/interrupted.test.ts',
  'test/faults/durability.test.ts',
  'test/faults/backup-drill.test.ts',
  'test/faults/webhooks-names.test.ts',
]

const FOLDER = join(import.meta.dirname, '../..')

/** Keeps the order of the list: what begins last would otherwise run alone for minutes. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const waiting = WAITING_FILES.flatMap((path) =>
      files.filter(({ moduleId }) => moduleId === join(FOLDER, path)),
    )
    const others = files.filter((file) => !waiting.includes(file))
    return [...waiting, ...(await super.sort(others))]
  }
}

const { globalSetup, setupFiles, reporters, outputFile, ...settings } = common('faults')
const project = {
  ...settings,
  setupFiles,
  env: { ...COUNTS, ...process.env } as Record<string, string>,
  hookTimeout: 120_000,
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
    name: 'faults',
    root: FOLDER,
    globalSetup,
    reporters,
    outputFile,
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        test: {
          ...project,
          name: 'waiting',
          include: WAITING_FILES,
          maxWorkers: 4,
          sequence: { groupOrder: 0 },
        },
      },
      {
        test: {
          ...project,
          name: 'busy',
          include: FAULT_FILES,
          exclude: WAITING_FILES,
          // Some need a core for their load and one for the service.
          maxWorkers: 2,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
})
