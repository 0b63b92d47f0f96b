import { rmSync } from 'node:fs'
import { stdin } from 'node:process'
import { killAll, orphansOf } from './processes.ts'

// Runs during a test run, as `node keeper.ts <root of the project> <folder of the run> <pids to spare>`.
// The run keeps the keeper's standard input open, so the end of the input means that the run has ended in some way. The
// keeper then kills the processes that the run left behind, and deletes the folder of the run.

/** How long the keeper kills remaining processes. Workers of the run end by themselves, a little later than the run. */
const ROUNDS_MAX = 50
const ROUND_MS = 200
/** The number of consecutive rounds that must find no process. */
const QUIET_ROUNDS = 10

const [root = '', folder = '', spared = ''] = process.argv.slice(2)
const before = new Set(spared.split(',').map(Number))
// Signals of a terminal also reach the keeper, and must not end it before its work is done.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})

stdin.resume().on('close', () => {
  let rounds = 0
  let quiet = 0
  const timer = setInterval(() => {
    const left = orphansOf(root, folder).filter(
      ({ pid }) => pid !== process.pid && !before.has(pid),
    )
    killAll(left)
    quiet = left.length === 0 ? quiet + 1 : 0
    rounds += 1
    if (quiet < QUIET_ROUNDS && rounds < ROUNDS_MAX) return
    clearInterval(timer)
    rmSync(folder, { recursive: true, force: true })
  }, ROUND_MS)
})
