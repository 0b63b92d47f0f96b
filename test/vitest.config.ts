import { join } from 'node:path'
import { defineConfig } from 'vitest/config'
import { createSkippedReporter } from './support/skipped-reporter.ts'
import { WAIT_LIMIT_MS } from './support/wait-for.ts'

/** The configuration of both runs. @param name of the report for `.ci/run` */
export const common = (name: string) => ({
  name,
  root: join(import.meta.dirname, '..'),
  globalSetup: ['test/support/global-setup.ts'],
  setupFiles: ['test/support/setup.ts'],
  // Each file has its own database. Four processes on two cores, as each waits for its database half of
  // the time, share the files and load the code once: no module has state that one file could leave to
  // the next.
  pool: 'forks' as const,
  isolate: false,
  maxWorkers: 4,
  // No test is judged by the clock: this ends only what hangs.
  testTimeout: 900_000,
  hookTimeout: 900_000,
  expect: { poll: { timeout: WAIT_LIMIT_MS } },
  reporters: [
    'default' as const,
    ...(process.env['CI'] ? ['json' as const] : []),
    createSkippedReporter(),
  ],
  outputFile: { json: `node_modules/.vitest/${name}.json` },
})

/** Files that take ten seconds or more each, most of them to start processes or to wait for time-outs: `npm run test:faults` runs them, so that `npm test` stays quick. */
export const SLOW_FILES = [
  'test/accounts/create-account.test.ts',
  'test/app/main.test.ts',
  'test/app/metrics.test.ts',
  'test/app/start.test.ts',
  'test/cli/completion.test.ts',
  'test/cli/doctor.test.ts',
  'test/cli/fake-banks.test.ts',
  'test/cli/init.test.ts',
  'test/cli/migrate.test.ts',
  'test/cli/proto-export.test.ts',
  'test/cli/reconcile.test.ts',
  'test/cli/tail.test.ts',
  'test/client/subscribe.test.ts',
  'test/clients/generated.test.ts',
  'test/clients/npm/package.test.ts',
  'test/clients/python.test.ts',
  'test/clients/receivers/receivers.test.ts',
  'test/clients/rest.test.ts',
  'test/clients/webhooks.test.ts',
  'test/console/access.test.ts',
  'test/console/operations.test.ts',
  'test/console/payments.test.ts',
  'test/console/batches.test.ts',
  'test/console/payouts.test.ts',
  'test/console/portal.test.ts',
  'test/console/webhooks.test.ts',
  'test/crypto/master-key.test.ts',
  'test/model/pages.test.ts',
  'test/model/payouts.test.ts',
  'test/openapi/answers.test.ts',
  'test/openapi/site-browser.test.ts',
  'test/ops/alerts.test.ts',
  'test/ops/deployment-guide.test.ts',
  'test/ops/proxies.test.ts',
  'test/payouts/check-paid.test.ts',
  'test/payouts/pay-settlements.test.ts',
  'test/payouts/payouts.test.ts',
  'test/payouts/reconcile.test.ts',
  'test/payouts/resend.test.ts',
  'test/postgres/foreign-settings.test.ts',
  'test/postgres/heartbeat.test.ts',
  'test/postgres/plans.test.ts',
  'test/protocols/interceptors/rate-limit.test.ts',
  'test/protocols/matrix/audited.test.ts',
  'test/protocols/matrix/credentials.test.ts',
  'test/protocols/matrix/errors.test.ts',
  'test/protocols/tls/mutual-tls.test.ts',
  'test/protocols/tls/tls-process.test.ts',
  'test/relay/relay.test.ts',
  'test/webhooks/cli.test.ts',
  'test/webhooks/deliveries/claimed-as-made.test.ts',
]

export default defineConfig({
  test: {
    ...common('tests'),
    include: ['test/**/*.test.ts'],
    // `npm run test:model` has all models.
    exclude: ['test/faults/**', ...(process.env['MODEL_SECONDS'] ? [] : SLOW_FILES)],
  },
})
