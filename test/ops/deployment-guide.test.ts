import { execFile } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { DockerfileParser } from 'dockerfile-ast'
import { expect, test } from 'vitest'
import { explainSettings } from '../../src/config/explain-settings.ts'
import { emptyDatabase } from '../support/database.ts'
import { ROOT } from '../support/embedded-service.ts'
import { temporaryFolder } from '../support/folder.ts'
import { freePort } from '../support/free-port.ts'
import { isInstalled, OPS, readOps, type Yaml, yamlOf } from './settings-of.ts'

const run = promisify(execFile)

/** The commands of the guide, line by line. */
const LINES = [
  ...readFileSync(join(ROOT, 'src/docs/deployment.md'), 'utf8').matchAll(
    /^```text\n([\s\S]*?)^```$/gm,
  ),
].flatMap(([, block = '']) => block.trimEnd().split('\n'))

const UNIT = readOps('systemd/inflow.service')
const unitEnv = [...UNIT.matchAll(/^Environment=(.*)$/gm)].map(([, pair = '']) => pair)
const imageEnv = DockerfileParser.parse(readOps('container/Containerfile'))
  .getENVs()
  .flatMap((each) => each.getProperties())
  .filter((property) => property.getName() !== 'PATH')
  .map((property) => `${property.getName()}=${property.getValue()}`)
const configMap = pairs(yamlOf('kubernetes/config-map.yaml')[0].data)
const composeEnv = pairs(yamlOf('compose/compose.yaml')[0].services.inflow.environment)

function pairs(settings: Record<string, Yaml>): readonly string[] {
  return Object.entries(settings).map(([name, value]) => `${name}=${value}`)
}

const isDatabase = (pair: string) => /^DATABASE_(LISTEN_)?URL/.test(pair)
const ofPairs = (all: readonly string[]) =>
  Object.fromEntries(all.map((pair) => [pair.split('=')[0], pair.slice(pair.indexOf('=') + 1)]))

test.each([
  ['the unit', unitEnv],
  ['the image', imageEnv],
  ['Compose', [...imageEnv, ...composeEnv.filter((pair) => !isDatabase(pair))]],
  ['Kubernetes', [...imageEnv, ...configMap]],
])('%s does not start without DATABASE_URL', (_name, settings) => {
  const { faults } = explainSettings(ofPairs(settings))
  expect(faults).toContainEqual(
    expect.stringMatching(/^DATABASE_URL is required in production [^\n]+$/),
  )
})

/**
 * Stands in for what this machine lacks: an engine of containers, a cluster, systemd. Each of them only decides with which
 * settings the service runs, so it is run with those. `npm ci` and the build of the image are tested elsewhere.
 */
const PROGRAMS = `
set -eo pipefail
inflow="$NODE $ROOT/src/cli/inflow.ts"
here="HTTP_PORT=$HTTP_PORT GRPC_PORT=$GRPC_PORT OPS_PORT=$OPS_PORT PATH=$PATH"
npm() { :; }
docker() {
  case "$1 $*" in
    build*) ;;
    *' up '*)
      # These names are those of the network of the containers.
      for name in database_url database_direct_url; do
        grep -q "@p.*:.*/inflow" src/ops/compose/secrets/$name
        echo "$COMPOSE_DATABASE_URL" > src/ops/compose/secrets/$name
      done
      env -i "\${compose[@]}" $here $inflow migrate up
      begin compose env -i "\${compose[@]}" $here $NODE $ROOT/src/main.ts ;;
    *' run --rm inflow inflow '*) env -i "\${compose[@]}" $here $inflow "\${@: -3}" ;;
    *) false ;;
  esac
}
podman() { [ "$1" = build ]; }
kubectl() {
  case "$*" in
    'create secret generic inflow --from-env-file '*) cp "\${@: -1}" secret ;;
    'create secret generic inflow-owner --from-literal '*) echo "\${@: -1}" > owner ;;
    'delete job '* | 'wait '*) ;;
    'apply -k src/ops/kubernetes/migrate')
      mapfile -t own < owner
      env -i $here "\${image[@]}" "\${own[@]}" $inflow migrate up ;;
    'apply -k src/ops/kubernetes')
      mapfile -t secret < secret
      pod=(env -i "\${image[@]}" "\${map[@]}" "\${secret[@]}" $here)
      begin kubernetes "\${pod[@]}" $NODE $ROOT/src/main.ts ;;
    'exec deploy/inflow -- inflow '*) "\${pod[@]}" $inflow "\${@:5}" ;;
    *) false ;;
  esac
}
systemctl() {
  case "$*" in
    daemon-reload) ;;
    'enable --now inflow')
      unit=$FOLDER/etc/systemd/system/inflow.service
      mapfile -t set < <(sed -n 's/^Environment=//p' "$unit"; cat "$FOLDER$(sed -n 's/^EnvironmentFile=//p' "$unit")")
      begin systemd env -i $here "\${set[@]//\\/var\\//$FOLDER/var/}" $NODE $ROOT/src/main.ts ;;
    *) false ;;
  esac
}
npx() {
  case "$*" in
    'inflow serve '*) begin serve $NODE $ROOT/src/cli/inflow.ts "\${@:2}" ;;
    # Exits with 1, as the server of the tests writes nothing to disk.
    'inflow doctor '*) examine doctor.json $inflow "\${@:2}" ;;
    'inflow '*) $inflow "\${@:2}" ;;
    *) false ;;
  esac
}
inflow() { examine installed.json command inflow "$@"; }
# Again while the service does not respond within five seconds.
examine() {
  local file=$1 tries=20
  shift
  until { "$@" --json > $file || [ $? -eq 1 ]; } && ! grep -Eq 'is not (healthy|ready): ' $file; do
    [ $((tries -= 1)) -gt 0 ] || return 1
  done
}
# Starts a service in the place of the one before.
begin() {
  local name=$1; shift
  end
  "$@" > $name.log 2>&1 < /dev/null &
  service=$!
  until grep -q '^Inflow is ready' $name.log; do
    kill -0 $service || { cat $name.log >&2; service=; return 1; }
    read -rt 0.1 <> <(:) || :
  done
}
end() {
  [ -z "$service" ] || { kill $service; wait $service || { tail -n 20 *.log >&2; return 1; }; }
  service=
}
trap end EXIT
mapfile -t image < image
mapfile -t map < map
mapfile -t compose < compose
`

test.skipIf(!isInstalled('bash') || !isInstalled('openssl'))(
  'every line of the guide works, and no way leads to an embedded database',
  async () => {
    const folder = temporaryFolder()
    cpSync(OPS, join(folder, 'src/ops'), { recursive: true })
    for (const path of ['etc/systemd/system', 'usr/local/bin'])
      mkdirSync(join(folder, path), { recursive: true })
    writeFileSync(join(folder, 'image'), imageEnv.join('\n'))
    writeFileSync(join(folder, 'map'), configMap.join('\n'))
    const settings = [...imageEnv, ...composeEnv].filter((pair) => !pair.startsWith('RELAY_URL='))
    const secrets = join(folder, 'src/ops/compose/secrets/')
    writeFileSync(
      join(folder, 'compose'),
      settings.map((pair) => pair.replace('/run/secrets/', secrets)).join('\n'),
    )
    const url = await emptyDatabase()
    const [http, grpc, ops] = [await freePort(), await freePort(), await freePort()]
    const script = LINES.map((line) =>
      line
        .replaceAll(/ (\/etc|\/usr\/local\/bin)\//g, ` ${folder}$1/`)
        .replace('/opt/inflow', ROOT)
        .replace('…', url),
    )
    const numbered = script.map((line, index) => `echo "line ${index + 1}"\n${line}`).join('\n')
    const env = {
      PATH: `${folder}/usr/local/bin:${process.env['PATH']}`,
      NODE: process.execPath,
      ROOT,
      FOLDER: folder,
      HOME: folder,
      HTTP_PORT: `${http}`,
      GRPC_PORT: `${grpc}`,
      OPS_PORT: `${ops}`,
      COMPOSE_DATABASE_URL: await emptyDatabase(),
    }
    const guide = run('bash', ['--norc', '-c', `${PROGRAMS}\n${numbered}`], { cwd: folder, env })
    // What the operator types at \`read\`.
    guide.child.stdin?.end(`${url}\n`)
    const { stdout, stderr } = await guide.catch((error) => error)
    const reached = [...stdout.matchAll(/^line \d+$/gm)].length
    expect([LINES[reached - 1], reached, stderr]).toEqual([LINES.at(-1), LINES.length, stderr])
    await expect(guide).resolves.toBeDefined()

    expect(stdout.match(/^Business .*, created$/gm)).toHaveLength(2)
    expect(statSync(join(folder, 'etc/inflow/inflow.env')).mode & 0o777).toBe(0o600)
    for (const name of ['serve', 'compose', 'kubernetes', 'systemd']) {
      const log = readFileSync(join(folder, `${name}.log`), 'utf8')
      expect([name, log]).toEqual([name, expect.stringContaining('"database":"external"')])
      expect([name, log]).not.toEqual([name, expect.stringMatching(/^(Console:|curl )/m)])
    }
    for (const path of ['.inflow', 'var/lib/inflow'])
      expect(existsSync(join(folder, path))).toBe(false)
    for (const name of ['doctor.json', 'installed.json']) {
      const { findings } = JSON.parse(readFileSync(join(folder, name), 'utf8'))
      const found = (level: string) =>
        findings.filter((each: Yaml) => each.level === level).map((each: Yaml) => each.found)
      expect(found('ok')).toContainEqual(expect.stringMatching(/^gRPC at \S+ is healthy$/))
      expect(found('fail')).toEqual([
        expect.stringMatching(/^fsync is off/),
        expect.stringMatching(/^full_page_writes is off/),
      ])
    }
  },
)
