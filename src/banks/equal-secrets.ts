import { createHash, timingSafeEqual } from 'node:crypto'

/** Compares without telling by its time where the texts, or their lengths, differ. */
export function equalSecrets(a: string, b: string): boolean {
  return timingSafeEqual(digest(a), digest(b))
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
