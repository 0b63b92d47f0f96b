/**
 * Records what a newcomer sees in the first minute as an animated picture: runs the commands of the README against a
 * service of its own, and writes what they print to `first-minute.svg`.
 */
import { execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CUSTOMER } from '../support/opened-account.ts'
import { ROOT, startProcess } from '../support/process.ts'
import { postRest } from '../support/service.ts'

const FILE = join(ROOT, 'src/docs/images/first-minute.svg')
const DATA_DIR = mkdtempSync(join(tmpdir(), 'inflow-recording-'))
const SETTINGS = { DATA_DIR, DISPLAY_TIME_ZONE: 'Africa/Lagos' }
const ENV = { ...process.env, ...SETTINGS }

/** A line of the picture. */
interface Line {
  readonly text: string
  readonly isTyped?: boolean
  /** How long it takes until the line is there. */
  readonly afterMs: number
}

const COLUMNS = 104
const TYPING_MS = 900
const PRINTING_MS = 120

const service = await startProcess({
  ...SETTINGS,
  ADMIN_TOKEN: undefined,
  MASTER_KEY: undefined,
})
try {
  const inflow = (...args: string[]) =>
    execFileSync('node', ['src/cli/inflow.ts', ...args], { cwd: ROOT, env: ENV, encoding: 'utf8' })
  const credentials = JSON.parse(readFileSync(join(DATA_DIR, 'credentials.json'), 'utf8'))
  const post = async (path: string, body: object) =>
    (await postRest(service.httpUrl, credentials.secret_key, path, body)).text
  const listening = spawn('node', ['src/cli/inflow.ts', 'webhook', 'listen'], {
    cwd: ROOT,
    env: ENV,
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  let printed = ''
  listening.stdout.setEncoding('utf8').on('data', (text: string) => {
    printed += text
  })
  await sleep(3_000)
  const created = await post('generateVirtualAccount/', {
    ...CUSTOMER,
    reference: 'order-1',
    bank: '9PSB',
  })
  const number = /"account_number":"(\d+)"/.exec(created)?.[1] ?? ''
  const transfer = ['transfer', 'simulate', '--account', number, '--amount', '1500.50']
  const simulated = inflow(...transfer, '--session', 'demo-session-1')
  await sleep(2_000)
  listening.kill('SIGINT')
  const found = await post('getTransaction/', { session_id: 'demo-session-1' })
  write([
    ...shown('npm ci && npm start', 'Inflow is ready'),
    ...shown(
      'curl …/v2/thirdparty/generateVirtualAccount/ -d \'{"reference":"order-1","bank":"9PSB", …}\'',
      created,
    ),
    ...shown(
      `npx inflow ${transfer.join(' ')} --session demo-session-1`,
      simulated.split('\n').slice(0, 3).join('\n'),
    ),
    ...shown('npx inflow webhook listen   # in another terminal', lineWith('PAYMENT_', printed)),
    ...shown('curl …/v2/thirdparty/getTransaction/ -d \'{"session_id":"demo-session-1"}\'', found),
  ])
} finally {
  await service.stop()
  rmSync(DATA_DIR, { recursive: true, force: true })
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

function lineWith(part: string, text: string): string {
  return text.split('\n').find((line) => line.includes(part)) ?? ''
}

/** A command, and at most four lines of what it printed. */
function shown(command: string, output: string): Line[] {
  const lines = output.trim() === '' ? [] : output.trim().split('\n')
  const folded = lines.flatMap(
    (line) => line.match(new RegExp(`.{1,${COLUMNS - 2}}`, 'gu')) ?? [''],
  )
  return [
    { text: `$ ${command}`, isTyped: true, afterMs: TYPING_MS },
    ...folded.slice(0, 5).map((text) => ({ text, afterMs: PRINTING_MS })),
    { text: '', afterMs: 0 },
  ]
}

/** Each line appears when it is printed; without motion, all of them are there. */
function write(lines: readonly Line[]): void {
  const [row, left, top] = [19, 18, 30]
  const height = top + lines.length * row
  let atMs = 0
  const drawn = lines.flatMap(({ text, isTyped, afterMs }, index) => {
    atMs += afterMs
    if (text === '') return []
    const style = `style="animation-delay:${(atMs / 1_000).toFixed(2)}s"`
    const kind = isTyped ? ' class="typed"' : ''
    return `<text${kind} x="${left}" y="${top + index * row}" ${style}>${escaped(text)}</text>`
  })
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 920 ${height}" role="img">
<title>The first minute: start, open an account, pay into it, and look the payment up</title>
<style>
text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#c9d6d3;white-space:pre;animation:shown 0s both}
.typed{fill:#7fd6c2}
@keyframes shown{from{opacity:0}to{opacity:1}}
@media(prefers-reduced-motion:reduce){text{animation:none}}
</style>
<rect width="920" height="${height}" rx="8" fill="#10201d"/>
${drawn.join('\n')}
</svg>
`
  writeFileSync(FILE, svg)
}

function escaped(text: string): string {
  return text.replace(/[&<>]/g, (each) => `&#${each.charCodeAt(0)};`)
}
