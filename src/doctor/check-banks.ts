import type { EntityManager, MikroORM } from '@mikro-orm/postgresql'
import { countInReview } from '../accounts/resolve-account.ts'
import type { BankCode } from '../banks/bank.ts'
import { listBreakers } from '../banks/breakers.ts'
import type { Config } from '../config/config.ts'
import { DAY_MS } from '../core/durations.ts'
import * as notifications from '../notifications/held-notifications.ts'
import { queryableOf } from '../postgres/queries-of.ts'
import { countWaitingConflicts } from '../transactions/conflicts.ts'
import { countWaitingUnmatched } from '../transactions/unmatched-store.ts'
import { countHeld } from '../transactions/variance/list-held.ts'
import { createFindings, type Finding } from './finding.ts'

/** How long a bank may take to send any response. */
const RESPONSE_TIMEOUT_MS = 5_000

/** A running service processes due notifications within a minute. */
const OVERDUE_MS = 600_000

/** The most items of a kind that are counted. */
const COUNT_MAX = 100_000

const ALL = { businessIds: undefined, live: undefined }

/** A bank without notifications for this time is reported; a bank with customers sends some every day. */
const QUIET_MS = DAY_MS

/** Checks whether the live banks can be reached. Any response counts, because the check does not log in. */
export async function checkBanks(liveBanks: Config['liveBanks']): Promise<readonly Finding[]> {
  const findings = createFindings('Banks')
  const codes = Object.keys(liveBanks) as BankCode[]
  await Promise.all(
    codes.map(async (code) => {
      const { host } = new URL(liveBanks[code]?.connector.baseUrl ?? '')
      const fault = await probe(liveBanks[code]?.connector.baseUrl ?? '')
      if (fault === undefined) findings.ok(`${code} responds at ${host}`)
      else {
        const advice = `check the network, the proxy and BANK_${code}_BASE_URL; some banks only accept known addresses`
        findings.fail(`${code} does not respond at ${host}: ${fault}`, advice)
      }
    }),
  )
  return findings.all
}

async function probe(url: string): Promise<string | undefined> {
  try {
    const signal = AbortSignal.timeout(RESPONSE_TIMEOUT_MS)
    const response = await fetch(url, { method: 'HEAD', redirect: 'manual', signal })
    await response.body?.cancel()
    return undefined
  } catch (error) {
    const { cause, message } = error as Error & { cause?: Error }
    return cause?.message || message
  }
}

/** Checks which work waits for manual review, and whether the banks still send notifications. */
export async function checkBankWork(
  orm: MikroORM,
  liveBanks: Config['liveBanks'],
  nowMs: number,
): Promise<readonly Finding[]> {
  const findings = createFindings('Banks')
  const em = orm.em.fork()
  const on = queryableOf(em)
  const waiting = [
    [
      await countInReview(on, ALL, COUNT_MAX),
      'accounts may or may not be open at their bank',
      'ask the bank, then resolve each: inflow account list --status PENDING, inflow account resolve',
    ],
    [
      await countWaitingUnmatched(on, COUNT_MAX),
      'payments match no open account',
      'assign or return each: inflow unmatched list',
    ],
    [
      await countHeld(on, { ...ALL, hold: 'RETURN_REQUESTED' }, COUNT_MAX),
      'payments are to be returned to their payers',
      'return each at its bank, then complete it: inflow transaction held --returns',
    ],
    [
      await notifications.countHeld(on, COUNT_MAX),
      'notifications are held: they could not be read or confirmed',
      'see why, then retry or resolve each: inflow notification list',
    ],
    [
      await notifications.countOverdue(em, nowMs - OVERDUE_MS),
      'notifications are due and are not processed',
      'is their bank live in BANKS, and does a service with these settings run?',
    ],
    [
      await countWaitingConflicts(on, ALL, COUNT_MAX),
      'reported payments contradict recorded ones',
      "compare with the bank's statement, then resolve each: inflow conflict list",
    ],
  ] as const
  for (const [count, found, advice] of waiting) {
    const orMore = count < COUNT_MAX ? '' : ' or more'
    if (count > 0) findings.warn(`${count}${orMore} ${found}`, advice)
  }
  if (findings.all.length === 0) findings.ok('nothing waits for manual review')
  await checkBreakers(em, findings)
  for (const bank of Object.keys(liveBanks) as BankCode[]) {
    await checkLatest(em, bank, nowMs, findings)
  }
  return findings.all
}

type Findings = ReturnType<typeof createFindings>

/** Reports open circuit breakers. Each worker has its own, so one worker may refuse calls that another sends. */
async function checkBreakers(em: EntityManager, findings: Findings): Promise<void> {
  const reported = await listBreakers(em)
  const denied = reported.filter(({ denial }) => denial !== '')
  for (const [bank, denial] of new Map(denied.map((each) => [each.bank, each.denial]))) {
    findings.fail(
      `${bank} denies this service access: ${denial}`,
      `check the credentials in BANK_${bank}_…, and that the bank lists this service's address`,
    )
  }
  const open = reported.filter(({ state }) => state !== 'closed')
  const byBank = Map.groupBy(open, ({ bank }) => bank)
  for (const [bank, breakers] of byBank) {
    const since = breakers[0]?.openedAt.toISOString()
    findings.warn(
      `the circuit breaker of ${bank} is open in ${breakers.length} processes, the first since ${since}`,
      'calls to the bank fail at once until it responds again: check the bank and the network',
    )
  }
}

async function checkLatest(
  em: EntityManager,
  bank: BankCode,
  nowMs: number,
  findings: Findings,
): Promise<void> {
  const latest = await notifications.latestNotificationAt(em, bank)
  if (latest && nowMs - latest.getTime() < QUIET_MS) {
    findings.ok(`${bank} sent its latest notification at ${latest.toISOString()}`)
    return
  }
  findings.warn(
    latest
      ? `${bank} has sent no notification since ${latest.toISOString()}`
      : `${bank} has sent no notification within the retention of notifications`,
    'if payments are expected, check the notification URL at the bank',
  )
}
