import { generator } from '../../support/random.ts'

/** Choices that a seed repeats. */
export interface Random {
  /** How likely one value of a request is a hostile one: half of the requests are nearly tame. */
  readonly hostility: number
  /** 0 ≤ n < max */
  int(max: number): number
  chance(probability: number): boolean
  pick<T>(items: readonly T[]): T
  bytes(length: number): Buffer
}

/** Each request has a generator of its own, so that it can be repeated by its number alone. */
export function createRandom(seed: number, index: number): Random {
  const next = generator(
    Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(index + 1, 0xc2b2ae35),
  )
  const int = (max: number) => Math.floor(next() * max)
  return {
    hostility: next() < 0.5 ? 0.02 : 0.35,
    int,
    chance: (probability) => next() < probability,
    pick: (items) => items[int(items.length)] as (typeof items)[number],
    bytes: (length) => Buffer.from(Array.from({ length }, () => int(256))),
  }
}
