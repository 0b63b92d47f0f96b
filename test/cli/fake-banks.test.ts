import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { readConfig } from '../../src/config/config.ts'
import { creation, send, until } from '../protocols/rest/rest.ts'
import { useDatabase } from '../support/database.ts'
import { temporaryFolder } from '../support/folder.ts'
import { freePort } from '../support/free-port.ts'
import { startProcess } from '../support/process.ts'
import { postRest } from '../support/service.ts'
import { callerEnv, inflow, type Running, runHere, startInflow } from './run-inflow.ts'

const db = useDatabase()

/** Returns the output up to the line with the example payment. */
async function untilReady(running: Running): Promise<string> {
  let text = ''
  for (;;) {
    const line = await running.nextLine()
    if (line === undefined) throw new Error(`fake-banks exited: ${running.stderr()}`)
    text += `${line}\n`
    if (line.startsWith('curl ')) return text
  }
}

async function waitForLine(running: Running, pattern: RegExp): Promise<void> {
  for (;;) {
    const line = await running.nextLine()
    if (line === undefined) throw new Error(`no line matches ${pattern}`)
    if (pattern.test(line)) return
  }
}

test('a service with the settings file receives payments from each bank', async () => {
  const httpPort = await freePort()
  const file = join(temporaryFolder(), 'fake-banks.env')
  writeFileSync(file, 'previous content', { mode: 0o644 })
  const options = ['--service-http', `http://127.0.0.1:${httpPort}`, '--write-env', file]
  const banks = startInflow(['fake-banks', '--port', '0', ...options])
  const output = await untilReady(banks)
  expect(output).toContain(`set -a; . ${file}; set +a; npm start`)
  expect(statSync(file).mode & 0o777).toBe(0o600)
  expect(output).not.toContain('PRIVATE_KEY')

  const environment = parseEnv(readFileSync(file, 'utf8'))
  const settings = { ...environment, DATABASE_URL: db.url, HTTP_PORT: httpPort }
  const service = await startProcess(settings)
  onTestFinished(() => service.kill())
  const { stdout: created } = await runHere(
    ['business', 'create', '--name', 'Acme', '--json'],
    callerEnv(service),
  )
  const { secretKey } = JSON.parse(created)
  for (const [bank, id] of [
    ['9PSB', {}],
    ['SAFEHAVEN', {}],
    ['PROVIDUS', {}],
    ['PALMPAY', { idType: 'bvn', idNumber: '22222222222' }],
  ] as const) {
    const order = creation({ bank, reference: bank, ...id })
    const opened = await postRest(service.httpUrl, secretKey, 'generateVirtualAccount/', order)
    expect([bank, opened.status]).toEqual([bank, 200])
    const [account] = opened.body.data.account
    const url = new RegExp(`^# ${bank} +(http://127\\.0\\.0\\.1:\\d+)$`, 'm').exec(output)?.[1]
    const paid = await send(url!, {
      path: '/fake/pay',
      body: JSON.stringify({ account_number: account.account_number, amount: '1500.50' }),
    })
    expect(paid.status).toBe(200)
    const { session_id } = JSON.parse(paid.text)
    const { body } = await until(
      () => postRest(service.httpUrl, secretKey, 'getTransaction/', { session_id }),
      (response) => response.status === 200,
    )
    expect(body.data).toMatchObject({ amount: 1500.5, bank, status: 'SUCCESS' })
    await waitForLine(banks, new RegExp(`${bank}  notification → 200 .*\\(acknowledged\\)$`))
  }
  banks.child.kill('SIGINT')
  expect(await banks.exit()).toBe(0)
  expect(banks.stderr()).toBe('')
})

test('prints the settings without a file, in a format that a shell reads', async () => {
  const banks = startInflow(['fake-banks', '--port', '0'])
  const output = await untilReady(banks)
  banks.child.kill('SIGTERM')
  expect(await banks.exit()).toBe(0)
  const settings = output
    .split('\n')
    .filter((line) => /^BANK/.test(line))
    .join('\n')
  const { banks: modes } = readConfig(parseEnv(settings) as NodeJS.ProcessEnv)
  expect(new Set(Object.values(modes))).toEqual(new Set(['live']))
  const shell = ['-c', `set -a\n${settings}\nenv`]
  const read = execFileSync('sh', shell, { encoding: 'utf8', env: { PATH: '/usr/bin:/bin' } })
  for (const [name, value] of Object.entries(parseEnv(settings))) {
    expect(read).toContain(`${name}=${value}\n`)
  }
})

test('reports errors in one line', async () => {
  const port = Number(await freePort())
  const server = createServer().listen(port, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const inUse = await inflow(['fake-banks', '--port', String(port - 2)])
  expect(inUse).toMatchObject({
    code: 1,
    // Another test may have a port before it.
    stderr: expect.stringMatching(/^error: port \d+ is in use; choose others with --port\n$/),
  })
  const remote = await runHere(['fake-banks', '--service-http', 'http://10.0.0.1:8080'])
  expect(remote).toMatchObject({ code: 2, stderr: expect.stringContaining('of this machine') })
  const unwritable = await inflow(['fake-banks', '--port', '0', '--write-env', '/nowhere/x'])
  expect(unwritable).toMatchObject({ code: 1, stderr: expect.stringContaining('--write-env') })
})
