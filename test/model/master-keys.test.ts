import fc from 'fast-check'
import { expect, test } from 'vitest'
import { encryptedTables } from '../../src/app/tables.ts'
import { insertMasterKey } from '../../src/crypto/check-master-key.ts'
import { createEncrypter } from '../../src/crypto/encryption.ts'
import { deleteHolder, upsertHolder } from '../../src/crypto/key-heartbeat.ts'
import { deleteRemovableKeys, listKeyIds, readKeyStatus } from '../../src/crypto/key-rotation.ts'
import { encryptNotification } from '../../src/notifications/raw-notification.ts'
import { useDatabase } from '../support/database.ts'
import { expectStories, MODEL_SECONDS, recount } from './try-stories.ts'

/** A model of the master keys: a key is kept for as long as a value or a running instance needs it. */

const db = useDatabase()
const KEYS = [1, 2, 3].map((byte) => Buffer.alloc(32, byte))
const encrypters = KEYS.map((key) => createEncrypter(key, KEYS))
const INSTANCES = ['ins_a', 'ins_b', 'ins_c'] as const

const key = fc.nat(KEYS.length - 1)
const story = fc.array(
  fc.oneof(
    fc.record({
      kind: fc.constant('start' as const),
      instance: fc.constantFrom(...INSTANCES),
      key,
    }),
    fc.record({ kind: fc.constant('stop' as const), instance: fc.constantFrom(...INSTANCES) }),
    fc.record({ kind: fc.constantFrom('write' as const, 'erase' as const, 'tidy' as const), key }),
  ),
  { minLength: 1, maxLength: 15 },
)
type Story = typeof story extends fc.Arbitrary<infer Each> ? Each : never

const idOf = (index: number) => encrypters[index]!.keyId

/** Writes a value under a key. */
async function write(index: number, count: number): Promise<string> {
  const id = `ntf_${index}_${count}`
  const raw = { headers: {}, rawBody: Buffer.from('{}'), pathSecret: '' }
  await db.database.durablePool.query(
    `insert into bank_notification (id, bank, body_digest, received_at, raw_encrypted, bank_key, state,
        outcome, cause, tries, account_number, session_id, amount_minor)
      values ($1, '9PSB', $2, now(), $3, 'key', 'MANUAL_REVIEW', 'MANUAL_REVIEW', 'the amount differs', 1,
        '1234567890', 'session', 700)`,
    [id, Buffer.from(id), encryptNotification(encrypters[index]!, id, raw)],
  )
  return id
}

async function play(steps: Story): Promise<void> {
  const { orm, durablePool } = db.database
  await durablePool.query(
    'delete from bank_notification; delete from master_key_holder; delete from master_key',
  )
  const running = new Map<string, number>()
  const values = KEYS.map(() => new Set<string>())
  const registered = new Set<string>()
  const tables = encryptedTables(db.database)
  let count = 0
  const done: string[] = []
  await recount(done, async () => {
    for (const step of steps) {
      done.push(JSON.stringify(step))
      const em = orm.em.fork()
      if (step.kind === 'stop') {
        running.delete(step.instance)
        await deleteHolder(em, step.instance)
        continue
      }
      const keyId = idOf(step.key)
      if (step.kind === 'start') {
        const process = { version: '1', migration: '', process: step.instance }
        const knownKeyIds = KEYS.map((_, index) => idOf(index))
        await upsertHolder(em, { id: step.instance, currentKeyId: keyId, knownKeyIds, ...process })
        await insertMasterKey(em, { id: keyId, knownText: Buffer.alloc(1) })
        running.set(step.instance, step.key)
        registered.add(keyId)
      } else if (step.kind === 'write') {
        values[step.key]!.add(await write(step.key, count++))
      } else if (step.kind === 'erase') {
        await durablePool.query('delete from bank_notification where id = any ($1)', [
          [...values[step.key]!],
        ])
        values[step.key]!.clear()
      }
      const statuses = await readKeyStatus(orm, encrypters[step.key]!, tables)
      const expected = KEYS.map((_, index) => {
        const instances = [...running.values()].filter((each) => each === index).length
        const current = index === step.key
        const isUsed = values[index]!.size > 0 || instances > 0
        return { keyId: idOf(index), current, instances, removable: !current && !isUsed }
      })
      for (const each of expected) {
        expect(statuses.find(({ keyId: id }) => id === each.keyId)).toMatchObject(each)
      }
      if (step.kind === 'tidy') {
        await deleteRemovableKeys(orm, statuses)
        for (const each of expected) if (each.removable) registered.delete(each.keyId)
        expect((await listKeyIds(orm)).toSorted()).toEqual([...registered].toSorted())
      }
    }
  })
}

test('a master key is removable once neither a value nor a running instance needs it', async () => {
  const seconds = Math.min(MODEL_SECONDS, 4) / 2
  await expectStories(story, play, seconds)
})
