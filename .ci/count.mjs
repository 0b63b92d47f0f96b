// Sums the vitest reports in one line: `N passed, N failed`, and the skipped tests.
import { readFileSync } from 'node:fs'

const total = { passed: 0, failed: 0, skipped: 0 }
for (const path of process.argv.slice(2)) {
  try {
    const report = JSON.parse(readFileSync(path, 'utf8'))
    total.passed += report.numPassedTests
    total.skipped += report.numPendingTests + report.numTodoTests
    // A file also fails without a failed test, if it cannot be loaded or a hook fails.
    const failsByItself = ({ status, assertionResults }) =>
      status === 'failed' && assertionResults.every((test) => test.status !== 'failed')
    total.failed += report.numFailedTests + report.testResults.filter(failsByItself).length
    if (report.testResults.length === 0) throw new Error('nothing ran')
    // Errors outside of any test.
    if (!report.success && report.numFailedTests === 0) total.failed ||= 1
  } catch (error) {
    process.stdout.write(`== failed: no report ${path}: ${error}\n`)
    total.failed += 1
  }
}
const { passed, failed, skipped } = total
process.stdout.write(
  `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}\n`,
)
process.exitCode = failed > 0 ? 1 : 0
