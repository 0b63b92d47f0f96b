import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { SERVICES } from '../../src/protobuf/contract-services.ts'
import { temporaryFolder } from '../support/folder.ts'
import { useSharedService } from '../support/service.ts'
import { callerEnv, inflow, runHere } from './run-inflow.ts'

const service = useSharedService()
const api = (...args: string[]) => runHere(['api', ...args], callerEnv(service))

test('prints all methods, and the paths of the REST API', async () => {
  const { stdout } = await api()
  const lines = stdout.trimEnd().split('\n')
  expect(lines).toHaveLength(SERVICES.flatMap(({ methods }) => methods).length)
  expect(lines).toContain('inflow.business.v1.BusinessService/ListBusinesses')
  expect(lines).toContain(
    'inflow.thirdparty.v2.ThirdPartyService/GetTransaction  /v2/thirdparty/getTransaction',
  )
})

test.each(['/inflow.business.v1.BusinessService/CreateBusiness', 'BusinessService/CreateBusiness'])(
  'calls a method by its name: %s',
  async (method) => {
    const { code, stdout } = await api(method, '{"name": "Acme"}')
    expect([code, JSON.parse(stdout)]).toMatchObject([0, { business: { name: 'Acme' } }])
  },
)

test('reads the request of a file or of standard input, and takes a path of the REST API', async () => {
  const { id, key } = await service.business()
  const file = join(temporaryFolder(), 'request.json')
  writeFileSync(file, JSON.stringify({ businessId: id }))
  const { stdout } = await api('BusinessService/GetBusiness', `@${file}`)
  expect(JSON.parse(stdout).business.id).toBe(id)
  const input = '{"session_id": "none"}'
  const args = ['api', '/v2/thirdparty/getTransaction/', '-']
  const refused = await inflow(args, { env: callerEnv(service, key), input })
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringMatching(/\(not_found\)\n$/)])
})

test.each([
  [['Nonsense/Get'], 'error: no method Nonsense/Get\n  `inflow api` prints all\n'],
  [
    ['EventService/Subscribe'],
    'error: inflow.event.v1.EventService/Subscribe is a stream: see `inflow events tail`\n',
  ],
  [
    ['BusinessService/GetBusiness', '{"nonsense": 1}'],
    'error: not a inflow.business.v1.GetBusinessRequest: cannot decode message inflow.business.v1.GetBusinessRequest from JSON: key "nonsense" is unknown\n',
  ],
  [
    ['BusinessService/GetBusiness', '{'],
    /^error: not a inflow\.business\.v1\.GetBusinessRequest: .*JSON/,
  ],
  [['BusinessService/GetBusiness', '@none'], /^error: cannot read the request: ENOENT/],
])('%j is refused with exit code 2', async (args, stderr) => {
  const outcome = await api(...args)
  expect([outcome.code, outcome.stdout]).toEqual([2, ''])
  if (typeof stderr === 'string') expect(outcome.stderr).toBe(stderr)
  else expect(outcome.stderr).toMatch(stderr)
})
