import type { SubscribeResponse } from '../../gen/inflow/event/v1/event_service_pb.ts'
import type { Cursor } from './cursor.ts'

/** The most events in memory, and the most bytes of their stored payloads. */
const ENTRIES_MAX = 4_096
const BYTES_MAX = 16 * 1024 * 1024

/** An event for subscribers. All subscribers share the item, which is built once. */
export interface TailEntry {
  readonly position: bigint
  readonly tag: string
  readonly kind: string
  readonly businessId: string
  readonly live: boolean
  readonly bytes: number
  readonly item: SubscribeResponse
}

/** Successive events in memory. The oldest are dropped. */
export class TailWindow {
  #entries: TailEntry[] = []
  #bytes = 0

  get size(): number {
    return this.#entries.length
  }

  get last(): TailEntry | undefined {
    return this.#entries.at(-1)
  }

  /** The next events after a place; undefined if the place is not in memory. */
  after({ position, tag }: Cursor, limit: number): readonly TailEntry[] | undefined {
    const first = this.#entries[0]
    if (first === undefined) return undefined
    // Positions have no gaps, so the index follows from the position.
    const at = Number(position - first.position)
    const seen = this.#entries[at]
    const isSame = seen !== undefined && (tag === '' || tag === seen.tag)
    return at === -1 || isSame ? this.#entries.slice(at + 1, at + 1 + limit) : undefined
  }

  append(fresh: readonly TailEntry[]): void {
    this.#entries.push(...fresh)
    for (const entry of fresh) this.#bytes += entry.bytes
    let drop = 0
    while (this.#entries.length - drop > ENTRIES_MAX || this.#bytes > BYTES_MAX) {
      this.#bytes -= (this.#entries[drop] as TailEntry).bytes
      drop += 1
    }
    // Dropped once for each read: copying the remaining entries is the expensive part.
    if (drop > 0) this.#entries = this.#entries.slice(drop)
  }

  clear(): void {
    this.#entries = []
    this.#bytes = 0
  }
}
