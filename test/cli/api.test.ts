import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { SERVICES } from '../../src/protobuf/contract-services.ts'
import { has, ROOT } from '../support/embedded-service.ts'
import { ADMIN_TOKEN, useSharedService } from '../support/service.ts'
import { inflow, runHere, temporaryFolder } from './run-inflow.ts'

const service = useSharedService()
const env = (token = ADMIN_TOKEN) => ({ INFLOW_GRPC_URL: service.grpcUrl, INFLOW_TOKEN: token })
const api = (...args: string[]) => runHere(['api', ...args], env())

test('prints all methods, and the paths of the REST API', async () => {
  const { stdout } = await api()
  const lines = stdout.trimEnd().split('\n')
  const services = SERVICES
  expect(lines).toHaveLength(services.flatMap(({ methods }) => methods).length)
  expect(lines).toContain('inflow.business.v1.BusinessService/ListBusinesses')
  expect(lines).toContain(
    'inflow.thirdparty.v2.ThirdPartyService/GetTransaction  /v2/thirdparty/getTransaction',
  )
})

test.each([
  'inflow.business.v1.BusinessService/CreateBusiness',
  '/inflow.business.v1.BusinessService/CreateBusiness',
  'BusinessService/CreateBusiness',
])('calls a method by its name: %s', async (method) => {
  const { code, stdout } = await api(method, '{"name": "Acme"}')
  expect([code, JSON.parse(stdout)]).toMatchObject([0, { business: { name: 'Acme' } }])
})

test('reads the request of a file or of standard input, and takes a path of the REST API', async () => {
  const { id, key } = await service.business()
  const file = join(temporaryFolder(), 'request.json')
  writeFileSync(file, JSON.stringify({ businessId: id }))
  const { stdout } = await api('BusinessService/GetBusiness', `@${file}`)
  expect(JSON.parse(stdout).business.id).toBe(id)
  const input = '{"session_id": "none"}'
  const args = ['api', '/v2/thirdparty/getTransaction/', '-']
  const refused = await inflow(args, { env: env(key), input })
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

/** The program that gives a command a terminal of its own. */
const TERMINAL = 'script'

/** Prints a table of two rows on a terminal with this many columns. */
const SCRIPT = (columns: number) => `
Object.defineProperty(process.stdout, 'columns', { value: ${columns} })
const { table } = await import('${join(ROOT, 'src/cli/output.ts')}')
const rows = [
  ['biz_01jd9w3k6t8v2x4z6b8d0f2h4j', 'Chukwuemeka Odumegwu Adébáyọ̀ and Sons', '1500.50'],
  ['biz_01jd9w3k6t8v2x4z6b8d0f2h4k', 'Ada', '7.00'],
]
const columns = ['id', 'name', 'amount'].map((title, at) => ({ title, right: at === 2, of: (row) => row[at] }))
process.stdout.write(table(rows, columns))
if (process.env.AT) {
  const { localTime } = await import('${join(ROOT, 'src/cli/options.ts')}')
  const { noteZone } = await import('${join(ROOT, 'src/cli/output.ts')}')
  localTime.format({ seconds: 0n, nanos: 0 })
  noteZone()
}`

test.skipIf(!has(TERMINAL))(
  'a table fits the terminal: texts are cut, ids and amounts are not',
  () => {
    const shown = (columns: number, more = {}) => {
      const env = { ...process.env, SCRIPT: SCRIPT(columns), NO_COLOR: '1', ...more }
      const command = `${process.execPath} --input-type=module -e "$SCRIPT"`
      const drawn = execFileSync(TERMINAL, ['-qec', command, '/dev/null'], {
        encoding: 'utf8',
        env,
      })
      // biome-ignore lint/suspicious/noControlCharactersInRegex: styles of the terminal
      return drawn.replaceAll(/\u001b\[\d+m/g, '').split('\r\n')
    }
    expect(shown(61)).toEqual([
      'ID                              NAME                   AMOUNT',
      'biz_01jd9w3k6t8v2x4z6b8d0f2h4j  Chukwuemeka Odumegw…  1500.50',
      'biz_01jd9w3k6t8v2x4z6b8d0f2h4k  Ada                      7.00',
    ])
    // As narrow as it gets: the rest is for the terminal to wrap.
    expect(shown(20)[1]).toBe('biz_01jd9w3k6t8v2x4z6b8d0f2h4j  Chukwuemeka…  1500.50')
    expect(shown(200)[1]).toContain('Adébáyọ̀ and Sons  1500.50')
    // Where a time was shown, its zone is said.
    const lines = shown(61, { AT: '1', DISPLAY_TIME_ZONE: 'Africa/Lagos' })
    expect(lines.join(' ')).toContain('Times are in Africa/Lagos.')
  },
)
