import { countPending } from '../../accounts/openings/list-in-review.ts'
import { BANK_CODES, type BankCode } from '../../banks/bank.ts'
import { listBreakers } from '../../banks/breakers.ts'
import { latestNotificationAt } from '../../notifications/notification-status.ts'
import type { Database } from '../../postgres/orm.ts'
import { listRuns } from '../../reconciliation/list-runs.ts'
import { readLastPayments } from './read-payment-hours.ts'

/** How each bank is served in live mode. */
export type BankModes = Readonly<Record<BankCode, 'sandbox' | 'live'>>

/** The state of a bank in one mode. */
export interface BankState {
  readonly bank: BankCode
  readonly connector: 'sandbox' | 'live'
  /** The worst of all processes. */
  readonly breaker: 'closed' | 'half-open' | 'open'
  readonly breakerSinceMs: number | undefined
  /** Whether it denied the latest call of a process access. */
  readonly accessDenied: boolean
  readonly lastNotificationAtMs: number | undefined
  readonly lastPaymentAtMs: number | undefined
  readonly runs: Awaited<ReturnType<typeof listRuns>>
  readonly pendingOpenings: number
}

const OPENINGS_MAX = 1_000

export async function readBanks(
  { orm, read }: Database,
  modes: BankModes,
  live: boolean,
): Promise<readonly BankState[]> {
  const isReal = (bank: BankCode) => live && modes[bank] === 'live'
  const [breakers, runs, lastPayments, pending, notified] = await Promise.all([
    listBreakers(orm.em.fork()),
    read((on) => listRuns(on)),
    read((on) => readLastPayments(on, live)),
    read((on) => countPending(on, live, OPENINGS_MAX)),
    Promise.all(
      BANK_CODES.map(async (bank) =>
        isReal(bank) ? latestNotificationAt(orm.em.fork(), bank) : undefined,
      ),
    ),
  ])
  return BANK_CODES.map((bank, index): BankState => {
    const reported = isReal(bank) ? breakers.filter((each) => each.bank === bank) : []
    const own = reported.filter(({ state }) => state !== 'closed')
    return {
      bank,
      connector: isReal(bank) ? 'live' : 'sandbox',
      breaker: own.some(({ state }) => state === 'open') ? 'open' : (own[0]?.state ?? 'closed'),
      breakerSinceMs: own[0]?.openedAt.getTime(),
      accessDenied: reported.some(({ denial }) => denial !== ''),
      lastNotificationAtMs: notified[index]?.getTime(),
      lastPaymentAtMs: lastPayments.get(bank),
      runs: isReal(bank) ? runs.filter((run) => run.bank === bank) : [],
      pendingOpenings: pending.get(bank) ?? 0,
    }
  })
}
