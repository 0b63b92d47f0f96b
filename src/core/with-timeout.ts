/**
 * Waits for a promise for at most `limitMs` milliseconds.
 *
 * @returns whether it resolved in time; rejects if the promise does
 */
export async function withTimeout(promise: Promise<unknown>, limitMs: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<false>((resolve) => {
    timer = setTimeout(resolve, limitMs, false)
  })
  try {
    return await Promise.race([promise.then(() => true), timeout])
  } finally {
    clearTimeout(timer)
  }
}
