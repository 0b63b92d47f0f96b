import { timestampMs } from '@bufbuild/protobuf/wkt'
import { afterEach, expect, test } from 'vitest'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { ENTITIES } from '../../src/app/entities.ts'
import { createKeyUses, type KeyUses } from '../../src/businesses/authenticate-key.ts'
import { keyIdOf } from '../../src/businesses/secret-key.ts'
import { openDatabase } from '../../src/postgres/orm.ts'
import { until } from '../protocols/rest/rest.ts'
import { captureLog } from '../support/captured-log.ts'
import { startProxy } from '../support/proxy.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { useSharedService } from '../support/service.ts'

const service = useSharedService()
const running = new Set<KeyUses>()

afterEach(async () => {
  for (const uses of running) await uses.stop()
  running.clear()
})

function create(everyMs: number): KeyUses {
  const uses = createKeyUses(createTestRuntime(service.database), { everyMs })
  running.add(uses)
  return uses
}

async function lastUsedMs(businessId: string): Promise<number | undefined> {
  const { keys } = await service.client(BusinessService).listKeys({ businessId })
  return keys[0]?.lastUsedAt && timestampMs(keys[0].lastUsedAt)
}

test('writes uses in the background, and never moves a use back in time', async () => {
  const { id, key } = await service.business()
  const keyId = keyIdOf(key)!
  const [one, other] = [create(20), create(20)]
  one.start()
  other.start()
  one.record(keyId, 2_000_000)
  // The clock was set back before the next write.
  one.record(keyId, 1_500_000)
  await until(
    () => lastUsedMs(id),
    (atMs) => atMs === 2_000_000,
  )
  other.record(keyId, 1_000_000)
  other.record('key_nobody', 3_000_000)
  await other.stop()
  expect(await lastUsedMs(id)).toBe(2_000_000)
})

test('a key that another transaction locks holds up no other key, and is written once it is free', async () => {
  const [locked, free] = [await service.business(), await service.business()]
  const client = await service.database.durablePool.connect()
  const uses = create(20)
  try {
    await client.query('begin')
    await client.query('select from api_key where id = $1 for update', [keyIdOf(locked.key)])
    for (const { key } of [locked, free]) uses.record(keyIdOf(key)!, 2_000_000)
    uses.start()
    await until(
      () => lastUsedMs(free.id),
      (atMs) => atMs === 2_000_000,
    )
    expect(await lastUsedMs(locked.id)).toBeUndefined()
    await client.query('rollback')
  } finally {
    client.release()
  }
  await until(
    () => lastUsedMs(locked.id),
    (atMs) => atMs === 2_000_000,
  )
})

test('keeps uses while the database is unavailable, and writes them afterwards', async () => {
  const { id, key } = await service.business()
  const wire = await startProxy(service.url)
  const database = await openDatabase(wire.through, ENTITIES, { connectionsMax: 2 })
  try {
    const { log: failureLog, lines: failures } = captureLog()
    const uses = createKeyUses(createTestRuntime(database, { log: failureLog }), { everyMs: 20 })
    running.add(uses)
    await wire.block()
    uses.record(keyIdOf(key)!, 2_000_000)
    uses.start()
    await until(
      async () => failures.length,
      (count) => count > 0,
    )
    await wire.unblock()
    await until(
      () => lastUsedMs(id),
      (atMs) => atMs === 2_000_000,
    )
    await uses.stop()
    running.delete(uses)
  } finally {
    await database.close()
  }
})
