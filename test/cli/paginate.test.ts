import { expect, test } from 'vitest'
import { tamper } from '../support/database.ts'
import { useService } from '../support/service.ts'
import { callerEnv, runHere } from './run-inflow.ts'

const service = useService()

test('--paginate goes on however many pages are empty', async () => {
  // A page reads up to 1,000 entries of the actor. Between the two that match there are 229 pages without any.
  await tamper(
    service.database.durablePool,
    `insert into audit_entry (number, at, actor_kind, actor_id, actor_name, address, request_id, action, target_kind,
        target_id, details, previous_hash, hash)
      select number, now(), 'token', 'tok_busy', '', '', '',
        case when number in (1000, 230999) then 'key.revoke' else 'key.issue' end, 'key', 'key_' || number, '{}', '', ''
      from generate_series(1000, 230999) number`,
    [],
  )
  const list = ['audit', 'list', '--actor', 'tok_busy', '--action', 'key.revoke', '--paginate']
  const { code, stdout, stderr } = await runHere(list, callerEnv(service))
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(stdout.match(/key_\d+/g)).toEqual(['key_230999', 'key_1000'])
})
