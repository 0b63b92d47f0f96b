import { join } from 'node:path'
import { defineConfig } from 'vitest/config'

/** For the tests of rules, which need no database. Stryker chooses the files. */
export default defineConfig({
  test: {
    root: join(import.meta.dirname, '../../..'),
    include: ['test/**/*.test.ts'],
    isolate: false,
    testTimeout: 60_000,
  },
})
