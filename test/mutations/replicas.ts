// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the texts are source code
import { inFile } from './mutation.ts'

const FRESHNESS = 'test/faults/replicas/freshness.test.ts'
const FAULT = 'test/postgres/replica-fault.test.ts'

const replica = inFile('src/postgres/replicas/replica.ts', FRESHNESS)
const replicas = inFile('src/postgres/replicas/replicas.ts', FRESHNESS)
const fault = inFile('src/postgres/replicas/server-state.ts', FAULT)
const state = inFile(
  'src/postgres/replicas/server-state.ts',
  'test/postgres/primary-state.test.ts',
  FRESHNESS,
)

/** Reads on standbys. */
export const REPLICAS = [
  replica(
    'a replica that is behind runs a read',
    'return isStandby && bytes !== null && bytes < primary.bytes',
    'return isStandby && bytes === null && bytes !== primary.bytes',
  ),
  replica(
    'a read sees the replica as it was before it caught up',
    '`begin read only; ${select}`',
    '`begin isolation level repeatable read read only; ${select}`',
  ),
  replica(
    'a read runs on another history than that of the primary',
    'if (found !== undefined) throw new Error(found)',
    '',
  ),
  replicas(
    'the position of the primary is remembered from an earlier read',
    '  return () =>\n    read(undefined).catch(',
    '  let last: Promise<PrimaryState> | undefined\n  return () =>\n    (last ??= read(undefined)).catch(',
  ),
  state(
    'commits that are visible before they are flushed are not waited for',
    "case when current_setting('synchronous_commit') = 'off'",
    "case when current_setting('synchronous_commit') = 'none'",
  ),
  fault(
    'a standby of another cluster is a replica',
    'if (replica.systemIdentifier !== primary.systemIdentifier) return',
    'if (replica.systemIdentifier === undefined) return',
  ),
  fault(
    'a promoted standby is a replica',
    '!replica.isStandby || replica.bytes === null',
    'replica.bytes === null',
  ),
  fault(
    'a standby that has not replayed the failover is a replica',
    'replica.loggedTimeline !== timeline || ',
    '',
  ),
]
