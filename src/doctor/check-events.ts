import type { Pool } from 'pg'
import { readFollowerLags } from '../events/follow-log.ts'
import { readLag, readLogAge } from '../events/log-state.ts'
import { readBacklog } from '../webhooks/deliveries/backlog.ts'
import { createFindings, type Finding } from './finding.ts'

const LAG_WARN_SECONDS = 5
const LAG_FAIL_SECONDS = 60
const FOLLOWER_WARN_SECONDS = 60
const FOLLOWER_FAIL_SECONDS = 900
const BACKLOG_WARN_SECONDS = 60
const BACKLOG_FAIL_SECONDS = 900
const DAY_SECONDS = 86_400

const FOLLOWERS = {
  figures: 'the hourly figures of payments',
  settlement: 'the balances due for settlement',
  payouts: 'the payouts of settlements',
} as const

/** Checks how long events and webhooks wait, and whether old events are deleted. */
export async function checkEvents(
  pool: Pool,
  eventRetentionDays: number,
): Promise<readonly Finding[]> {
  const findings = createFindings('Events')
  const report = (
    seconds: number,
    [warn, fail]: readonly number[],
    found: string,
    advice: string,
  ) => {
    if (seconds > (fail ?? Number.POSITIVE_INFINITY)) findings.fail(found, advice)
    else if (seconds > (warn ?? 0)) findings.warn(found, advice)
    else findings.ok(found)
  }
  const lag = await readLag(pool)
  const waitSeconds = Math.max(0, lag?.seconds ?? 0)
  report(
    waitSeconds,
    [LAG_WARN_SECONDS, LAG_FAIL_SECONDS],
    lag?.rows
      ? `${count(lag.rows)} events wait for a position in the log, the oldest for ${text(waitSeconds)}`
      : `every event has a position in the log, which ends at ${lag?.position ?? 0}`,
    'check that an instance runs; a long-open transaction in any database of the server delays it',
  )
  const backlog = await readBacklog(pool)
  report(
    backlog.oldestSeconds,
    [BACKLOG_WARN_SECONDS, BACKLOG_FAIL_SECONDS],
    backlog.due === 0
      ? 'no webhook is due'
      : `${count(backlog.due)} webhooks are due, the oldest for ${text(backlog.oldestSeconds)}`,
    'check that an instance runs, and whether an endpoint is slow: inflow webhook deliveries',
  )
  for (const { name, seconds, setAside } of await readFollowerLags(pool)) {
    report(
      seconds,
      [FOLLOWER_WARN_SECONDS, FOLLOWER_FAIL_SECONDS],
      seconds === 0
        ? `${FOLLOWERS[name]} contain every event of the log`
        : `${FOLLOWERS[name]} lack the events of the last ${text(seconds)}`,
      `check that an instance runs, and its log for \`loop failed\``,
    )
    if (setAside > 0) {
      findings.warn(
        `${FOLLOWERS[name]} lack ${count(setAside)} events that the database refused`,
        'find each in the log of the service: `event set aside`',
      )
    }
  }
  const ageSeconds = await readLogAge(pool)
  report(
    ageSeconds ?? 0,
    [(eventRetentionDays + 1) * DAY_SECONDS],
    ageSeconds === undefined
      ? 'there are no events yet'
      : `the oldest event is ${text(ageSeconds)} old; EVENT_RETENTION_DAYS is ${eventRetentionDays}`,
    'check that an instance runs, and its log for `event retention`',
  )
  return findings.all
}

const count = (rows: number) => rows.toLocaleString('en')

function text(seconds: number): string {
  if (seconds >= 2 * DAY_SECONDS) return `${Math.round(seconds / DAY_SECONDS)} days`
  if (seconds >= 7_200) return `${Math.round(seconds / 3_600)} hours`
  if (seconds >= 120) return `${Math.round(seconds / 60)} minutes`
  return `${Math.round(seconds)} s`
}
