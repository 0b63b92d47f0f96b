import { execFile } from 'node:child_process'
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { runHere } from '../cli/run-inflow.ts'
import { installed } from '../clients/installed.ts'
import { has, ROOT, useEmbeddedService } from '../support/embedded-service.ts'
import { listen } from '../support/listen.ts'
import { startReceiver } from '../support/receiver.ts'

const run = promisify(execFile)
const { at, start, credentials } = useEmbeddedService()

/** The README first: the other documents use what it creates. */
const DOCUMENTS = [
  'README.md',
  ...readdirSync(join(ROOT, 'src/docs'))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `src/docs/${name}`),
]

/**
 * Stands in for the programs of the documents. `npm ci`, `npm start` and the tests are run by
 * `.ci/run` and test/app; `inflow fake-banks` listens at fixed ports, and test/cli runs it at free ones. Commands that
 * follow something are ended after a while. `nats` is a consumer's own program. Python does nothing here if it is not
 * installed.
 */
const PROGRAMS = `
npm() { :; }
nats() { :; }
protoc() { [ -z "$PROTOC" ] || command protoc "$@"; }
python3() {
  [ -n "$PYTHON" ] && [ -n "$PROTOC" ] || return 0
  case "$1" in
    follow.py) timeout -s INT 4 "$PYTHON" "$@" || ended $? ;;
    *) command "$PYTHON" "$@" ;;
  esac
}
inflow() {
  local code
  code=$({ printf '%s\\0' "$PWD" $# "$@"; env -0; } | curl -sS --data-binary @- "$COMMANDS")
  cat "$HOME/stdout"; cat "$HOME/stderr" >&2
  return "$code"
}
ended() { [ "$1" -eq 124 ] || { echo "unknown end: $1" >&2; return 1; }; }
npx() {
  local program=$1; shift
  case "$program $*" in
    'inflow fake-banks'*) touch .fake-banks.env ;;
    'inflow events tail'* | 'inflow webhook listen'*)
      timeout -s INT 4 "$NODE" "$ROOT/src/cli/inflow.ts" "$@" || ended $? ;;
    'inflow '*) inflow "$@" ;;
    'buf '*) "$ROOT/node_modules/.bin/buf" "$@" ;;
    *) echo "unknown program: $program" >&2; return 1 ;;
  esac
}
set -eo pipefail
`

/** Runs the commands of the terminal in this process, as a hundred starts of Node take a minute. @returns its URL */
async function serveCommands(folder: string): Promise<string> {
  const server = createServer(async (request, response) => {
    const [cwd = '', count, ...words] = (await text(request)).split('\0')
    const settings = words.splice(Number(count)).filter((each) => each.includes('='))
    const env = settings.map((each) => [each.split('=')[0], each.slice(each.indexOf('=') + 1)])
    const before = process.cwd()
    process.chdir(cwd)
    const { code, stdout, stderr } = await runHere(words, Object.fromEntries(env))
    process.chdir(before)
    writeFileSync(join(folder, 'stdout'), stdout)
    writeFileSync(join(folder, 'stderr'), stderr)
    response.end(`${code}`)
  })
  onTestFinished(() => void server.close())
  return `http://127.0.0.1:${await listen(server)}`
}

function shellBlocks(file: string): string[] {
  const text = readFileSync(join(ROOT, file), 'utf8')
  return [...text.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map((match) => match[1] ?? '')
}

test('every document that has commands is found', () => {
  expect(DOCUMENTS.flatMap(shellBlocks).length).toBeGreaterThan(20)
})

test.skipIf(!has('bash') || !has('curl') || !has('timeout'))(
  'every shell block of the documents works when pasted',
  async () => {
    const { child, exited } = await start()
    const { http_url: http, grpc_url: grpc } = await credentials()
    const receiver = await startReceiver()
    const commands = await serveCommands(at('.'))
    // The reader saves the programs of clients.md.
    cpSync(join(ROOT, 'test/clients/python'), at('.'), { recursive: true })
    const addresses: readonly (readonly [string, string])[] = [
      ['http://127.0.0.1:8080', http],
      ['http://127.0.0.1:50051', grpc],
      ['http://127.0.0.1:9000', new URL(receiver.url).origin],
      ['http://127.0.0.1:9001', new URL(receiver.url).origin],
    ]
    for (const document of DOCUMENTS) {
      const blocks = shellBlocks(document).map((block) =>
        addresses.reduce(
          (text, [documented, actual]) => text.replaceAll(documented, actual),
          block,
        ),
      )
      const script = blocks
        .map((block, index) => `printf "\\nblock ${index + 1}\\n"\n${block}`)
        .join('\n')
      const env = {
        PATH: process.env['PATH'],
        TZ: 'UTC',
        HOME: at('.'),
        COMMANDS: commands,
        ROOT,
        NODE: process.execPath,
        PROTOC: installed.protoc ? 'installed' : undefined,
        PYTHON: installed.grpcPython,
      }
      const ran = run('bash', ['--norc', '-c', PROGRAMS + script], { cwd: at('.'), env })
      const { stdout, stderr } = await ran.catch((error) => error)
      const reached = [...stdout.matchAll(/^block \d+$/gm)].length
      expect([document, reached, stderr]).toEqual([document, blocks.length, stderr])
      await expect(ran).resolves.toBeDefined()
    }
    child.kill('SIGTERM')
    expect(await exited).toBe(0)
  },
)
