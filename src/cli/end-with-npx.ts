/** How often the parent process is looked at. */
const POLL_MS = 250

/**
 * Ends the command by SIGTERM once npx has ended. npx passes a signal on to its shell, which ends without passing it
 * on, so that a service would go on running without a parent.
 */
export function endWithNpx(env: NodeJS.ProcessEnv): void {
  const { npm_lifecycle_event: event, npm_lifecycle_script: script = '' } = env
  // Its variables are inherited: other programs that npx runs may start the command too.
  if (event !== 'npx' || !/^['"]?inflow\b/.test(script)) return
  const parent = process.ppid
  const watch = setInterval(() => {
    // The parent of an orphan is process 1, from the beginning if npx ended that early.
    if (process.ppid === parent && parent !== 1) return
    clearInterval(watch)
    process.kill(process.pid, 'SIGTERM')
  }, POLL_MS)
  watch.unref()
}
