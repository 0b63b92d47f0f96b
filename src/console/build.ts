/**
 * Builds the console into `dist/console`, compressed. npm runs it after each installation; without Vite, which
 * only development installs, it leaves what is there.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import { FORM_RULES } from './form-rules.ts'

const SOURCES = import.meta.dirname
const ROOT = join(SOURCES, '../..')
const OUT = join(ROOT, 'dist/console')

/** Takes the place of `gen/`, whose validation rules would add 13 % to the first load. */
const CONTRACT = join(ROOT, 'dist/contract')

/** What the first page may load, in bytes of gzip: the entry, what it imports, and the style. */
const FIRST_LOAD_MAX = 180 * 1024

const TEXTS = new Set(['.html', '.js', '.css', '.svg'])

const vite = await import('vite').catch(() => undefined)
if (vite === undefined) {
  process.stdout.write('inflow: the console is not built, because Vite is not installed\n')
} else {
  rmSync(CONTRACT, { recursive: true, force: true })
  execFileSync('buf', ['generate', '--template', 'src/console/buf.gen.yaml'], {
    cwd: ROOT,
    stdio: 'inherit',
  })
  await vite.build({
    root: SOURCES,
    base: '/console/',
    configFile: false,
    logLevel: 'warn',
    plugins: [
      {
        name: 'form-rules',
        load: (path) =>
          path === join(SOURCES, 'form-rules.ts')
            ? `export const FORM_RULES = ${JSON.stringify(FORM_RULES)}`
            : undefined,
      },
    ],
    resolve: { alias: [{ find: /^(\.\.\/)+gen\//, replacement: `${CONTRACT}/` }] },
    build: {
      outDir: OUT,
      emptyOutDir: true,
      target: 'es2023',
      modulePreload: { polyfill: false },
      // The content security policy allows no data: but for the empty icon.
      assetsInlineLimit: 0,
      manifest: 'manifest.json',
      chunkSizeWarningLimit: 800,
      rolldownOptions: {
        // Directives for servers that render React mean nothing here.
        onwarn: (warning, warn) => {
          if (warning.code !== 'MODULE_LEVEL_DIRECTIVE') warn(warning)
        },
      },
    },
  })
  for (const name of readdirSync(OUT, { recursive: true, encoding: 'utf8' })) {
    if (TEXTS.has(extname(name))) compress(join(OUT, name))
  }
  const bytes = firstLoadBytes()
  if (bytes > FIRST_LOAD_MAX) {
    throw new Error(`the first load has ${bytes} bytes of gzip; ${FIRST_LOAD_MAX} are allowed`)
  }
  process.stdout.write(`inflow: the console is built; its first load has ${kib(bytes)} of gzip\n`)
}

function compress(path: string): void {
  const content = readFileSync(path)
  writeFileSync(`${path}.gz`, gzipSync(content, { level: 9 }))
  const params = { [constants.BROTLI_PARAM_QUALITY]: 9 }
  writeFileSync(`${path}.br`, brotliCompressSync(content, { params }))
}

interface Chunk {
  readonly file: string
  readonly imports?: readonly string[]
  readonly css?: readonly string[]
}

/** The page, the entry, all that it imports before it runs, and their styles. */
function firstLoadBytes(): number {
  const manifest = JSON.parse(readFileSync(join(OUT, 'manifest.json'), 'utf8')) as Record<
    string,
    Chunk
  >
  const files = new Set(['index.html'])
  const visit = (name: string): void => {
    const chunk = manifest[name]
    if (chunk === undefined || files.has(chunk.file)) return
    files.add(chunk.file)
    for (const style of chunk.css ?? []) files.add(style)
    for (const imported of chunk.imports ?? []) visit(imported)
  }
  visit('index.html')
  return [...files]
    .filter((file) => existsSync(join(OUT, file)))
    .reduce((sum, file) => sum + gzipSync(readFileSync(join(OUT, file)), { level: 9 }).length, 0)
}

function kib(bytes: number): string {
  return `${(bytes / 1024).toFixed(0)} KiB`
}
