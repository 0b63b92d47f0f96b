import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { readConfig } from '../../src/config/config.ts'
import { asJson, creation, GENERATE, GET_TRANSACTION, send, until } from '../protocols/rest/rest.ts'
import { useDatabase } from '../support/database.ts'
import { freePort } from '../support/free-port.ts'
import { startProcess } from '../support/process.ts'
import { ADMIN_TOKEN } from '../support/service.ts'
import { inflow, type Running, startInflow, temporaryFolder } from './run-inflow.ts'

const db = useDatabase()

/** Lines up to the one that says how to pay. */
async function untilReady(running: Running): Promise<string> {
  let text = ''
  for (;;) {
    const line = await running.nextLine()
    if (line === undefined) throw new Error(`it ended: ${running.stderr()}`)
    text += `${line}\n`
    if (line.startsWith('curl ')) return text
  }
}

async function lineLike(running: Running, pattern: RegExp): Promise<void> {
  for (;;) {
    const line = await running.nextLine()
    if (line === undefined) throw new Error(`it never said ${pattern}`)
    if (pattern.test(line)) return
  }
}

test('a service takes the settings of the file, and each bank’s payments arrive', async () => {
  const httpPort = await freePort()
  const file = join(temporaryFolder(), 'fake-banks.env')
  writeFileSync(file, 'what was here', { mode: 0o644 })
  const options = ['--service-http', `http://127.0.0.1:${httpPort}`, '--write-env', file]
  const banks = startInflow(['fake-banks', '--port', '0', ...options])
  const said = await untilReady(banks)
  expect(said).toContain(`set -a; . ${file}; set +a; npm start`)
  expect(statSync(file).mode & 0o777).toBe(0o600)
  expect(said).not.toContain('PRIVATE_KEY')

  const environment = parseEnv(readFileSync(file, 'utf8'))
  const settings = { ...environment, DATABASE_URL: db.url, HTTP_PORT: httpPort }
  const service = await startProcess(settings)
  onTestFinished(() => service.kill())
  const { stdout: created } = await inflow(['business', 'create', '--name', 'Acme', '--json'], {
    env: { INFLOW_GRPC_URL: service.grpcUrl, INFLOW_TOKEN: ADMIN_TOKEN },
  })
  const headers = asJson(JSON.parse(created).secretKey)
  for (const [bank, id] of [
    ['9PSB', {}],
    ['SAFEHAVEN', {}],
    ['PROVIDUS', {}],
    ['PALMPAY', { idType: 'bvn', idNumber: '22222222222' }],
  ] as const) {
    const order = creation({ bank, reference: bank, ...id })
    const opened = await send(service.httpUrl, {
      path: GENERATE,
      headers,
      body: JSON.stringify(order),
    })
    expect([bank, opened.status]).toEqual([bank, 200])
    const [account] = JSON.parse(opened.text).data.account
    const url = new RegExp(`^# ${bank} +(http://127\\.0\\.0\\.1:\\d+)$`, 'm').exec(said)?.[1]
    const paid = await send(url!, {
      path: '/fake/pay',
      body: JSON.stringify({ account_number: account.account_number, amount: '1500.50' }),
    })
    expect(paid.status).toBe(200)
    const body = JSON.stringify({ session_id: JSON.parse(paid.text).session_id })
    const { text } = await until(
      () => send(service.httpUrl, { path: GET_TRANSACTION, headers, body }),
      (answer) => answer.status === 200,
      30_000,
    )
    expect(JSON.parse(text).data).toMatchObject({ amount: 1500.5, bank, status: 'SUCCESS' })
    await lineLike(banks, new RegExp(`${bank}  notification → 200 .*\\(acknowledged\\)$`))
  }
  banks.child.kill('SIGINT')
  expect(await banks.exit()).toBe(0)
  expect(banks.stderr()).toBe('')
}, 90_000)

test('without a file the settings are printed, and a shell reads them as they are', async () => {
  const banks = startInflow(['fake-banks', '--port', '0'])
  const said = await untilReady(banks)
  banks.child.kill('SIGTERM')
  expect(await banks.exit()).toBe(0)
  const settings = said
    .split('\n')
    .filter((line) => /^BANK/.test(line))
    .join('\n')
  const { banks: modes } = readConfig(parseEnv(settings) as NodeJS.ProcessEnv)
  expect(new Set(Object.values(modes))).toEqual(new Set(['live']))
  const shell = spawn('sh', ['-c', `set -a\n${settings}\nenv`], { env: { PATH: '/usr/bin:/bin' } })
  let seen = ''
  shell.stdout.setEncoding('utf8').on('data', (text) => {
    seen += text
  })
  await once(shell, 'close')
  for (const [name, value] of Object.entries(parseEnv(settings))) {
    expect(seen).toContain(`${name}=${value}\n`)
  }
})

test('what cannot be is said in a line', async () => {
  const port = Number(await freePort())
  const server = createServer().listen(port, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const taken = await inflow(['fake-banks', '--port', String(port - 2)])
  expect(taken).toMatchObject({
    code: 1,
    stderr: `error: port ${port} is in use; choose others with --port\n`,
  })
  const far = await inflow(['fake-banks', '--service-http', 'http://10.0.0.1:8080'])
  expect(far).toMatchObject({ code: 2, stderr: expect.stringContaining('of this machine') })
  const nowhere = await inflow(['fake-banks', '--port', '0', '--write-env', '/nowhere/x'])
  expect(nowhere).toMatchObject({ code: 1, stderr: expect.stringContaining('--write-env') })
})
