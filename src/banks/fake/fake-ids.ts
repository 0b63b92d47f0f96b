import type { Clock } from '../../core/clock.ts'
import { LAGOS_OFFSET_MS } from '../lagos-time.ts'
import { nuban } from '../nuban.ts'

/**
 * Issues the numbers of a fake bank. They differ between runs, and between fake banks that run at the
 * same time.
 */
export interface FakeIds {
  accountNumber(): string
  /** 30 digits: the sending institution, the time, and a serial. @param atMs epoch milliseconds */
  sessionId(atMs: number): string
  /** @returns Lagos time without a zone, as Nigerian banks write it: `2023-06-07T09:35:29` */
  localTime(atMs: number): string
}

const SERIALS = 1_000_000_000

/**
 * @param nubanCode the bank's code for the check digit of account numbers
 * @param sender six digits: the institution that sends the payments
 */
export function createFakeIds(clock: Clock, nubanCode: string, sender: string): FakeIds {
  // Serials start 1,000 higher for each second of the start time. The NUBAN code keeps banks apart
  // by more accounts than a run opens.
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

/** Returns a JSON number with exactly this text: a float would lose digits of large amounts. */
export function numberToken(text: string): unknown {
  // The types of `JSON` do not have `rawJSON` yet.
  return (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON(text)
}
