import { nuban } from '../banks/nuban.ts'
import type { Clock } from '../core/clock.ts'

/**
 * Numbers that a fake bank gives out; those of one run are not those of the one before it, nor of
 * another fake beside it.
 */
export interface FakeIds {
  accountNumber(): string
  /** 30 digits: the sending institution, the time, and a serial. @param atMs epoch milliseconds */
  sessionId(atMs: number): string
  /** As a Nigerian bank writes times. @returns `2023-06-07T09:35:29` in Lagos */
  localTime(atMs: number): string
}

/** Lagos is an hour before UTC all year. */
const LAGOS_OFFSET_MS = 3_600_000
const SERIALS = 1_000_000_000

/**
 * @param nubanCode the bank's, in the check digit of account numbers
 * @param sender six digits of the institution that payments come from
 */
export function createFakeIds(clock: Clock, nubanCode: string, sender: string): FakeIds {
  // A second has room for a thousand accounts before the next run's begin, and between two banks' there
  // are more than any run opens.
  let serial = (Math.floor(clock.now()) + Number(nubanCode) * 1_000) % SERIALS
  let sessions = 0
  const localTime = (atMs: number) =>
    new Date(atMs + LAGOS_OFFSET_MS).toISOString().slice(0, 'YYYY-MM-DDTHH:MM:SS'.length)
  return {
    accountNumber() {
      serial = (serial + 1) % SERIALS
      return nuban(nubanCode, serial)
    },
    sessionId(atMs) {
      sessions += 1
      const stamp = localTime(atMs).replaceAll(/\D/g, '').slice(2)
      return sender + stamp + String(sessions).padStart(12, '0')
    },
    localTime,
  }
}
