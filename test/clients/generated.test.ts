import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { useSharedService } from '../support/service.ts'
import { ROOT, run } from './npm/project.ts'
import { TSC } from './npm/tools.ts'

/**
 * Not in the lock file: they are larger than the service. Without npm's registry or cache the tests are skipped. The
 * generators read declarations with the old TypeScript; this project's compiles in a tenth of its time.
 */
const PACKAGES = [
  'openapi-typescript@7.13.0',
  'openapi-fetch@0.17.0',
  '@hey-api/openapi-ts@0.95.0',
  'orval@7.13.2',
  'zod@4.1.12',
  'typescript@5.9.3',
]

/** What makes a client of the OpenAPI document, for the program of that name. */
const GENERATORS: Readonly<Record<string, readonly (readonly string[])[]>> = {
  'openapi-typescript': [
    ['openapi-typescript', 'openapi.json', '-o', 'openapi-typescript/generated.ts'],
  ],
  'hey-api': [['openapi-ts', '-i', 'openapi.json', '-o', 'hey-api/generated']],
  orval: [
    ['orval', '-i', 'openapi.json', '-o', 'orval/generated.ts', '--client', 'fetch'],
    ['orval', '-i', 'openapi.json', '-o', 'orval/rules.ts', '--client', 'zod'],
  ],
}

const COMPILER = {
  strict: true,
  target: 'es2022',
  module: 'nodenext',
  moduleResolution: 'nodenext',
  typeRoots: [join(ROOT, 'node_modules/@types')],
  types: ['node'],
}

const service = useSharedService()
const folder = mkdtempSync(join(tmpdir(), 'inflow-generated-'))
let isInstalled = false

beforeAll(async () => {
  writeFileSync(join(folder, 'package.json'), '{"private": true, "type": "module"}')
  copyFileSync(join(ROOT, 'gen/openapi.json'), join(folder, 'openapi.json'))
  const options = ['--prefer-offline', '--fetch-retries=1', '--ignore-scripts', '--no-audit']
  const install = run('npm', ['install', ...PACKAGES, ...options], { cwd: folder })
  isInstalled = await install.then(
    () => true,
    () => false,
  )
})

afterAll(() => rmSync(folder, { recursive: true, force: true }))

test.for(Object.keys(GENERATORS))(
  'a client that %s generates compiles strictly, opens an account, and looks a payment up',
  async (name, { skip }) => {
    if (!isInstalled) return skip('npm has none of the generators: there is no network')
    const { id } = await service.business(name)
    const { secretKey: key } = await service.client(BusinessService).issueKey({
      businessId: id,
      live: false,
      scopes: ['accounts:create', 'payments:simulate', 'payments:read'],
    })
    mkdirSync(join(folder, name))
    copyFileSync(
      join(import.meta.dirname, 'generated', `${name}.ts`),
      join(folder, name, 'program.ts'),
    )
    const tsconfig = { compilerOptions: COMPILER, include: [name] }
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(tsconfig))
    for (const [program = '', ...args] of GENERATORS[name]!) {
      await run(join(folder, 'node_modules/.bin', program), args, { cwd: folder })
    }
    const compile = [TSC, '--rootDir', name, '--outDir', `out/${name}`]
    await run(process.execPath, compile, { cwd: folder })
    const env = { INFLOW_URL: service.httpUrl, INFLOW_SECRET_KEY: key }
    const { stdout } = await run(process.execPath, [`out/${name}/program.js`], { cwd: folder, env })
    const { accounts } = await service.client(AccountService).listAccounts({ businessId: id })
    expect(stdout).toBe(`${accounts[0]?.accountNumber} 1500.5 SUCCESS\n404 not_found\n`)
  },
)
