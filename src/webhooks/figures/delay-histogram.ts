/** Two buckets for each doubling: the middle of a bucket is at most a fifth from any value in it. */
const PER_DOUBLING = 2

/** The last one, of three and a half weeks, has all that is longer. */
export const BUCKETS = 64

/** The bucket of a delay in milliseconds. */
export function bucketOf(delayMs: number): number {
  const bucket = Math.floor(PER_DOUBLING * Math.log2(Math.max(1, delayMs)))
  return Math.min(BUCKETS - 1, bucket)
}

/** @returns the delay, in milliseconds, that a part of the counted ones did not exceed; 0 if none are counted */
export function quantileMs(counts: readonly number[], part: number): number {
  const total = counts.reduce((sum, count) => sum + count, 0)
  if (total === 0) return 0
  const rank = Math.ceil(total * part)
  let passed = 0
  const bucket = counts.findIndex((count) => {
    passed += count
    return passed >= rank
  })
  return Math.round(2 ** ((bucket + 0.5) / PER_DOUBLING))
}

/** Adds counts to those of the same buckets. */
export function addCounts(to: number[], counts: readonly number[]): void {
  for (const [bucket, count] of counts.entries()) to[bucket] = (to[bucket] ?? 0) + count
}
