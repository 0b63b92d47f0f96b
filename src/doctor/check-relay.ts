import type { JetStreamManager, StreamConfig, StreamInfo } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import type { Pool } from 'pg'
import { readLogState } from '../events/log-state.ts'
import type { NatsSettings } from '../relay/jetstream-sink.ts'
import { createFindings, type Finding } from './finding.ts'

const HOUR_NANOS = 3_600e9
const VARZ_TIMEOUT_MS = 1_000

/** A relay that is further behind is reported; a busy relay lags less. */
const LAG_WARN_ROWS = 10_000

type Findings = ReturnType<typeof createFindings>

/** Checks the NATS server of RELAY_URL, and the stream that mirrors the event log. */
export async function checkRelay(
  pool: Pool,
  settings: NatsSettings,
  eventRetentionDays: number,
): Promise<readonly Finding[]> {
  const findings = createFindings('Relay')
  const { connectNats, manageStreams } = await import('../relay/jetstream-sink.ts')
  const connection = await connectNats(settings).catch((error: Error) => {
    const found = `no NATS server of RELAY_URL accepts the connection: ${error.message}`
    findings.fail(found, 'start it, or check RELAY_URL and its credentials')
  })
  if (!connection) return findings.all
  try {
    const manager = await manageStreams(connection).catch((error: Error) => {
      findings.fail(`JetStream cannot be used: ${error.message}`, 'enable it for this account')
    })
    if (manager) await checkStreams(pool, manager, eventRetentionDays, findings)
    await checkSync(connection, findings)
  } finally {
    await connection.close()
  }
  return findings.all
}

async function checkStreams(
  pool: Pool,
  manager: JetStreamManager,
  eventRetentionDays: number,
  findings: Findings,
): Promise<void> {
  const { findLatest } = await import('../relay/jetstream-sink.ts')
  const info = await findLatest(manager)
  if (info === undefined) {
    findings.warn('there is no stream yet', 'start an instance with RELAY_URL')
    return
  }
  const { placeOfStream } = await import('../relay/jetstream-sink.ts')
  const { epoch, after } = placeOfStream(info)
  const state = await readLogState(pool)
  const behind = Number(state.end.position - after) - info.state.last_seq
  const found = `the stream ${info.config.name} ends at position ${after + BigInt(info.state.last_seq)}, the event log at ${state.end.position}`
  if (epoch !== state.epoch) {
    findings.fail(
      `${found}; its epoch is ${epoch}, the log's ${state.epoch}`,
      'check that an instance runs, and its log: event relay',
    )
  } else if (behind < 0 || behind > LAG_WARN_ROWS) {
    findings.warn(found, 'check that an instance runs, and its log: event relay')
  } else findings.ok(found)
  checkConfig(info, eventRetentionDays, findings)
}

/** Reports settings with which the stream would lose events, or delete them too early. */
function checkConfig({ config }: StreamInfo, eventRetentionDays: number, findings: Findings): void {
  const edit = `nats stream edit ${config.name}`
  const before = findings.all.length
  if (config.storage !== 'file') {
    findings.fail('the stream is in memory: a restart of the server empties it', edit)
  }
  if (config.retention !== 'limits') {
    findings.fail(
      `the retention of the stream is ${config.retention}: what one consumer has read is gone for the others`,
      `${edit} --retention limits`,
    )
  }
  if (config.max_msgs_per_subject > 0) {
    findings.fail('the stream keeps a number of messages of each subject', edit)
  }
  if (config.num_replicas === 1) {
    findings.warn(
      'the stream has one replica: consumers wait while its server is down',
      `in a cluster: ${edit} --replicas 3, and RELAY_REPLICAS=3`,
    )
  }
  if (config.discard === 'new' && hasLimits(config)) {
    findings.warn('the relay stops when the stream is full', `${edit} --discard old`)
  }
  const hours = config.max_age / HOUR_NANOS
  if (hours > 0 && hours < eventRetentionDays * 24) {
    findings.warn(
      `the stream keeps messages for ${hours.toFixed(1)} hours, EVENT_RETENTION_DAYS is ${eventRetentionDays}`,
      'a consumer that stops for longer reads the rest over gRPC',
    )
  }
  if (findings.all.length === before) findings.ok('the settings of the stream keep every event')
}

const hasLimits = ({ max_msgs, max_bytes }: StreamConfig) => max_msgs > 0 || max_bytes > 0

/** Reports how often the server syncs to the disk, which only the system account can read. */
async function checkSync(connection: NatsConnection, findings: Findings): Promise<void> {
  const response = await connection
    .request('$SYS.REQ.SERVER.PING.VARZ', '', { timeout: VARZ_TIMEOUT_MS })
    .catch(() => undefined)
  const settings = response?.json<{
    data?: { jetstream?: { config?: { sync_interval?: number; sync_always?: boolean } } }
  }>().data?.jetstream?.config
  const version = connection.info?.version ?? 'of an unknown version'
  const interval = settings?.sync_interval
  const every = settings?.sync_always
    ? 'syncs every message'
    : interval === undefined
      ? 'syncs every two minutes unless sync_interval is set, which this account cannot see'
      : `syncs every ${interval / 1e9} s`
  findings.ok(
    `NATS ${version} ${every}; the relay publishes again what a server loses, at the same sequences`,
  )
}
