/** What requests may take before anybody knows whose they are. */
export interface QuotaLimits {
  /** Bytes of bodies that are not complete, of one address and in all. */
  readonly pendingBytesPerAddressMax: number
  readonly pendingBytesMax: number
  /** Calls under way, of one address and in all, the streams of subscribers among them. */
  readonly streamsPerAddressMax: number
  readonly streamsMax: number
}

/** What one address has under way, or all together. */
interface Count {
  streams: number
  pendingBytes: number
}

/** Counts what is held for requests that are not complete, and calls that are not over. */
export class Quota {
  readonly #limits: QuotaLimits
  readonly #all: Count = { streams: 0, pendingBytes: 0 }
  readonly #addresses = new Map<string, Count & { connections: number }>()

  constructor(limits: QuotaLimits) {
    this.#limits = limits
  }

  /** What a connection takes of it. @param network see `addressGroup` */
  enter(network: string): Share {
    const address = this.#addresses.get(network) ?? { connections: 0, streams: 0, pendingBytes: 0 }
    address.connections += 1
    this.#addresses.set(network, address)
    return new Share(this.#limits, this.#all, address, () => {
      address.connections -= 1
      if (address.connections === 0) this.#addresses.delete(network)
    })
  }
}

/** What one connection takes. */
export class Share {
  readonly #limits: QuotaLimits
  readonly #all: Count
  readonly #address: Count
  /** To be called when the connection is gone. */
  readonly leave: () => void

  constructor(limits: QuotaLimits, all: Count, address: Count, leave: () => void) {
    this.#limits = limits
    this.#all = all
    this.#address = address
    this.leave = leave
  }

  /** @returns whether the stream is within bounds; it counts either way */
  addStream(): boolean {
    this.#address.streams += 1
    this.#all.streams += 1
    const { streamsPerAddressMax, streamsMax } = this.#limits
    return this.#address.streams <= streamsPerAddressMax && this.#all.streams <= streamsMax
  }

  removeStream(): void {
    this.#address.streams -= 1
    this.#all.streams -= 1
  }

  /** @returns whether the bytes are within bounds; they count either way */
  addPending(bytes: number): boolean {
    this.#address.pendingBytes += bytes
    this.#all.pendingBytes += bytes
    const { pendingBytesPerAddressMax, pendingBytesMax } = this.#limits
    return (
      this.#address.pendingBytes <= pendingBytesPerAddressMax &&
      this.#all.pendingBytes <= pendingBytesMax
    )
  }

  removePending(bytes: number): void {
    this.#address.pendingBytes -= bytes
    this.#all.pendingBytes -= bytes
  }
}
