import { createHash, timingSafeEqual } from 'node:crypto'

/** Compares in constant time: reveals neither the first difference nor the lengths. */
export function equalSecrets(a: string, b: string): boolean {
  return timingSafeEqual(digest(a), digest(b))
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
