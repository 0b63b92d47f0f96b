import type { Pool } from 'pg'
import type { BankCode } from '../banks/bank.ts'
import type { Config } from '../config/config.ts'
import { createFindings, type Finding } from './finding.ts'

/** How long a bank has to answer anything at all. */
const ANSWER_MS = 5_000

const DAY_MS = 86_400_000

/** A bank with customers tells of something every day. */
const QUIET_MS = DAY_MS

interface Waiting {
  openings: number
  unmatched: number
  held: number
  differing: number
}

/** Whether the banks that are live can be reached. Any answer will do: nobody logs in. */
export async function checkBanks(liveBanks: Config['liveBanks']): Promise<readonly Finding[]> {
  const findings = createFindings('Banks')
  const codes = Object.keys(liveBanks) as BankCode[]
  await Promise.all(
    codes.map(async (code) => {
      const { host } = new URL(liveBanks[code]?.connector.baseUrl ?? '')
      const fault = await reach(liveBanks[code]?.connector.baseUrl ?? '')
      if (fault === undefined) findings.ok(`${code} answers at ${host}`)
      else {
        const advice = `see the network, the proxy and BANK_${code}_BASE_URL; some banks answer only to addresses that they know`
        findings.fail(`${code} does not answer at ${host}: ${fault}`, advice)
      }
    }),
  )
  return findings.all
}

async function reach(url: string): Promise<string | undefined> {
  try {
    const signal = AbortSignal.timeout(ANSWER_MS)
    const answer = await fetch(url, { method: 'HEAD', redirect: 'manual', signal })
    await answer.body?.cancel()
    return undefined
  } catch (error) {
    const { cause, message } = error as Error & { cause?: Error }
    return cause?.message || message
  }
}

/** What differs stays: there is nothing in it to resolve, and what is older was looked at. */
const DIFFERS_DAYS = 7

/** What of the banks waits for a person, and whether they still tell of payments. */
export async function checkBankWork(
  pool: Pool,
  liveBanks: Config['liveBanks'],
  nowMs: number,
): Promise<readonly Finding[]> {
  const findings = createFindings('Banks')
  const { rows } = await pool.query<Waiting>(
    `select
      (select count(*)::int from account where status = 'PENDING' and opening_state = 'PERSON')
        as openings,
      (select count(*)::int from unmatched_payment where resolution is null) as unmatched,
      (select count(*)::int from bank_notification where state = 'MANUAL_REVIEW') as held,
      (select count(*)::int from payment_conflict where created_at >= $1) as differing`,
    [new Date(nowMs - DIFFERS_DAYS * DAY_MS)],
  )
  const { openings = 0, unmatched = 0, held = 0, differing = 0 } = rows[0] ?? {}
  if (openings > 0) {
    findings.warn(
      `${openings} accounts may or may not have been opened`,
      'ask the bank, and resolve each: inflow account list --status PENDING, inflow account resolve',
    )
  }
  if (unmatched > 0) {
    findings.warn(
      `${unmatched} payments came for no open account`,
      'assign or return each: inflow unmatched list',
    )
  }
  if (held > 0) {
    const advice = 'see the log at the time they came, and ask the bank'
    findings.warn(`${held} notifications could not be understood or contradict a record`, advice)
  }
  if (differing > 0) {
    findings.warn(
      `${differing} payments were told of otherwise than they are recorded in the last ${DIFFERS_DAYS} days`,
      "see the table payment_conflict, and compare with the bank's statement: inflow reconcile",
    )
  }
  if (openings + unmatched + held + differing === 0) findings.ok('nothing waits for a person')
  for (const bank of Object.keys(liveBanks)) await checkLatest(pool, bank, nowMs, findings)
  return findings.all
}

async function checkLatest(
  pool: Pool,
  bank: string,
  nowMs: number,
  findings: ReturnType<typeof createFindings>,
): Promise<void> {
  const { rows } = await pool.query<{ latest: Date | null }>(
    'select max(received_at) as latest from bank_notification where bank = $1',
    [bank],
  )
  const latest = rows[0]?.latest
  if (latest && nowMs - latest.getTime() < QUIET_MS) {
    findings.ok(`${bank} told of a payment at ${latest.toISOString()}`)
    return
  }
  findings.warn(
    latest
      ? `${bank} has told of no payment since ${latest.toISOString()}`
      : `${bank} has told of no payment yet, as far as notifications are kept`,
    'check the notification address at the bank, if payments are expected',
  )
}
