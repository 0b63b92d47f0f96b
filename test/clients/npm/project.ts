import { execFile, spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { onTestFinished } from 'vitest'

export const ROOT = join(import.meta.dirname, '../../..')

interface RunOptions {
  readonly cwd: string
  readonly env?: NodeJS.ProcessEnv
}

/** The environment of a user: without what npm and vitest set for this run. */
const CLEAN = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !/^(npm_|NODE_|VITEST|INFLOW_)/.test(name)),
)

/** Runs a program to its end. @throws with its output, when it fails */
export async function run(program: string, args: readonly string[], options: RunOptions) {
  const env = { ...CLEAN, ...options.env }
  const { stdout, stderr } = await promisify(execFile)(program, args, { ...options, env }).catch(
    (error) => {
      throw new Error(`${program} ${args.join(' ')}\n${error.stdout}${error.stderr}`)
    },
  )
  return { stdout, stderr }
}

/** Starts a program that does not end by itself. @returns its lines, and its error output so far */
export function start(program: string, args: readonly string[], options: RunOptions) {
  const child = spawn(program, args, { ...options, env: { ...CLEAN, ...options.env } })
  onTestFinished(() => {
    child.kill('SIGKILL')
  })
  const lines: string[] = []
  let stderr = ''
  createInterface({ input: child.stdout }).on('line', (line) => lines.push(line))
  child.stderr.setEncoding('utf8').on('data', (text) => {
    stderr += text
  })
  return { lines, stderr: () => stderr }
}

/** Runs npm without the network, and without scripts of packages. */
export function npm(args: readonly string[], cwd: string) {
  return run('npm', [...args, '--offline', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd })
}

/**
 * Installs a tarball as `npm install` does. There may be no network, so the packages that it needs are
 * copied from this project: at the top level, where they satisfy what the tarball asks for.
 */
export async function installTarball(
  folder: string,
  tarball: string,
  needed: readonly string[],
): Promise<void> {
  const copies = closureOf(needed).map((name) => [name, `file:${join(ROOT, 'node_modules', name)}`])
  const manifest = { private: true, type: 'module', dependencies: Object.fromEntries(copies) }
  manifest.dependencies['@inflow-payments/client'] = `file:${tarball}`
  writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest))
  await npm(['install', '--install-links'], folder)
}

interface Locked {
  readonly dependencies?: Readonly<Record<string, string>>
  readonly peerDependencies?: Readonly<Record<string, string>>
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>
}

/** The packages, and all that those need, as this project has them installed. */
function closureOf(names: readonly string[]): string[] {
  const lock = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'))
  const packages: Readonly<Record<string, Locked>> = lock.packages
  const found = new Set<string>()
  const add = (name: string): void => {
    if (found.has(name)) return
    found.add(name)
    const { dependencies, peerDependencies, peerDependenciesMeta } =
      packages[`node_modules/${name}`] ?? {}
    for (const each of Object.keys(dependencies ?? {})) add(each)
    for (const each of Object.keys(peerDependencies ?? {})) {
      if (peerDependenciesMeta?.[each]?.optional !== true) add(each)
    }
  }
  for (const name of names) add(name)
  return [...found].sort()
}

/** The examples of a document in a language, as they stand. */
export function examplesOf(document: string, language: string): string[] {
  const text = readFileSync(join(ROOT, document), 'utf8')
  return [...text.matchAll(/^```(\w+)\n(.*?)^```$/gms)]
    .filter(([, found]) => found === language)
    .map(([, , code = '']) => code)
}
