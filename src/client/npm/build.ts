/**
 * Builds the npm package for other projects in `dist/client` or the given folder: the client, the contract and the command.
 * They are compiled, because Node does not run TypeScript under node_modules. `tsc` writes modules, types and source maps;
 * a bundle would need a second tool, and hide the licences and updates of its dependencies.
 */
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  copyFileSync,
  cpSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join, resolve } from 'node:path'
import root from '../../../package.json' with { type: 'json' }

const ROOT = join(import.meta.dirname, '../../..')
const DIST = resolve(process.argv[2] ?? join(ROOT, 'dist/client'))

/** The name is in a scope of the project: after the scope is registered, only the project can publish in it. */
const NAME = '@inflow-payments/client'

/** The entry points of the package. Compiled modules have the same paths as their sources. */
const ENTRIES = {
  './subscribe': 'src/client/subscribe',
  './webhooks': 'src/client/verify-webhook',
  './contract': 'gen/contract',
}
const COMMAND = 'src/cli/installed.js'

/** The oldest Node that has `import.meta.dirname` and `util.styleText`. */
const NODE = '>=20.12'

rmSync(DIST, { recursive: true, force: true })
const compiler = join(ROOT, 'node_modules/typescript/bin/tsc')
const project = join(import.meta.dirname, 'tsconfig.json')
const compiled = spawnSync(process.execPath, [compiler, '-p', project, '--outDir', DIST], {
  stdio: 'inherit',
})
if (compiled.status !== 0) process.exit(1)

const emitted = readdirSync(DIST, { recursive: true, encoding: 'utf8' })
for (const file of emitted) {
  // The command is not imported, so it needs no types; generated code needs no source maps.
  if (/^src\/cli\/.*\.d\.ts$|^gen\/.*\.map$/.test(file)) rmSync(join(DIST, file))
  else if (/^gen\/.*\.js$/.test(file)) rewrite(file, /^\/\/# sourceMappingURL=.*\n?/m, '')
  // All releases of TypeScript resolve imports in this form.
  else if (file.endsWith('.d.ts'))
    rewrite(file, /((?:from |import\()['"]\.[^'"]*)\.ts(?=['"])/g, '$1.js')
}
writeFileSync(join(DIST, 'package.json'), `${JSON.stringify(describe(), null, 2)}\n`)
// The contract for programs in other languages.
cpSync(join(ROOT, 'proto'), join(DIST, 'proto'), {
  recursive: true,
  filter: (path) => statSync(path).isDirectory() || path.endsWith('.proto'),
})
copyFileSync(join(import.meta.dirname, 'README.md'), join(DIST, 'README.md'))
copyFileSync(join(ROOT, 'LICENSE'), join(DIST, 'LICENSE'))
chmodSync(join(DIST, COMMAND), 0o755)

function rewrite(file: string, what: RegExp, by: string): void {
  const path = join(DIST, file)
  writeFileSync(path, readFileSync(path, 'utf8').replace(what, by))
}

function describe() {
  const { version, license } = root
  const entries = Object.entries(ENTRIES).map(([entry, file]) => [
    entry,
    { types: `./${file}.d.ts`, default: `./${file}.js` },
  ])
  return {
    name: NAME,
    version,
    description: 'The client of Inflow, a self-hosted virtual account payment service.',
    license,
    type: 'module',
    engines: { node: NODE },
    bin: { inflow: `./${COMMAND}` },
    exports: { ...Object.fromEntries(entries), './package.json': './package.json' },
    sideEffects: false,
    dependencies: dependencies(),
  }
}

/** The packages that the modules import, at the versions of this project. (Modules of Node have the prefix `node:`.) */
function dependencies(): Record<string, string> {
  const versions: Readonly<Record<string, string>> = root.dependencies
  const found = new Set<string>()
  for (const file of readdirSync(DIST, { recursive: true, encoding: 'utf8' })) {
    if (!/\.(js|d\.ts)$/.test(file)) continue
    const imports = readFileSync(join(DIST, file), 'utf8').matchAll(
      /\b(?:from |import\()["']((?:@[\w.-]+\/)?\w[\w.-]*)[/"']/g,
    )
    for (const [, name = ''] of imports) found.add(name)
  }
  return Object.fromEntries(
    [...found].sort().map((name) => {
      const version = versions[name]
      if (version === undefined) throw new Error(`${name} is imported, but no dependency`)
      return [name, version]
    }),
  )
}
