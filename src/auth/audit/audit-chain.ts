import { type AuditEntry, auditHash, NO_HASH } from './audit-hash.ts'

/** The first entry of the audit log that is not intact. */
export interface ChainBreak {
  readonly number: bigint
  /** What is wrong, as a predicate of "entry 5". */
  readonly why: string
}

/** The last entry of a log, and whether its MAC is right. */
interface ChainHead {
  readonly number: bigint
  readonly hash: string
  readonly authentic: boolean
}

/** Verifies the hash chain and the MACs of the audit log, from the first entry on or after one that is intact. */
export interface Chain {
  /** Verifies the next entry. @returns what is wrong with it, or before it */
  follow(entry: AuditEntry): ChainBreak | undefined
  /** Compares the last verified entry with the head that the service reports. */
  end(head: ChainHead): ChainBreak | undefined
  /** The number of the last intact entry. */
  readonly number: bigint
  readonly hash: string
}

/** @param start the last entry that is known to be intact; absent: begins with the first */
export function createChain(start = { number: 0n, hash: NO_HASH }): Chain {
  let { number, hash } = start
  return {
    follow(entry) {
      const next = number + 1n
      if (entry.number !== next) return { number: next, why: 'is missing' }
      if (entry.hash !== auditHash(entry)) {
        return { number: next, why: 'was changed: its hash does not match its content' }
      }
      if (entry.previousHash !== hash) {
        return { number: next, why: 'does not follow the previous entry: one of them was changed' }
      }
      if (!entry.authentic) {
        return { number: next, why: 'was not appended by the service: its MAC is missing or wrong' }
      }
      number = next
      hash = entry.hash
      return undefined
    },
    end(head) {
      if (head.number > number) return { number: number + 1n, why: 'is missing' }
      if (head.number === number && head.hash === hash && head.authentic) return undefined
      return { number, why: 'is not the last entry that was appended' }
    },
    get number() {
      return number
    },
    get hash() {
      return hash
    },
  }
}
