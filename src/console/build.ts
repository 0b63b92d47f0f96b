/**
 * Builds the console into `dist/console`, and compresses it. npm runs this after each installation. Without Vite, which is a
 * development dependency, it leaves an existing build unchanged.
 */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import type { HtmlTagDescriptor, IndexHtmlTransformContext, Rolldown } from 'vite'
import { RAIL_NEEDS } from './app/rail-needs.ts'
import { FORM_RULES } from './form-rules.ts'
import { CALLER_CALL, PAGE_CALLS } from './session/first-calls.ts'

const SOURCES = import.meta.dirname
const ROOT = join(SOURCES, '../..')
const OUT = join(ROOT, 'dist/console')

/** The contract without validation rules, which replaces `gen/`: the rules would add 13 % to the first load. */
const CONTRACT = join(ROOT, 'dist/contract')

/** The largest size of the files that every page needs, in bytes after gzip. */
const FIRST_LOAD_MAX = 160 * 1024

/** Values that the build computes from the whole contract. They replace the modules that compute them. */
const COMPUTED: Readonly<Record<string, object>> = {
  [join(SOURCES, 'form-rules.ts')]: { FORM_RULES },
  [join(SOURCES, 'app/rail-needs.ts')]: { RAIL_NEEDS },
  [join(SOURCES, 'session/first-calls.ts')]: { CALLER_CALL, PAGE_CALLS },
}

/** The groups of files. There are few, because each file is a request: one for each page, and some that pages share. */
const CHUNKS = [
  { name: 'start', test: /console\/start\./, priority: 3 },
  { name: 'app', test: /console\/app\/app\./, priority: 2 },
  {
    name: 'lists',
    test: /(event|transaction|payout)_service_pb|app\/pause-banner\.|pages\/(overview-page|floats|payments-page|payment-words|review-kinds)\.|ui\/(list|columns|filters|reading|live-rows)\./,
    priority: 1,
  },
  { name: 'forms', test: /ui\/(action|form|fields|dialog|save-file)\./ },
]

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
        name: 'computed',
        load: (path) =>
          Object.entries(COMPUTED[path] ?? {})
            .map(([name, value]) => `export const ${name} = ${JSON.stringify(value)}`)
            .join('\n') || undefined,
      },
      { name: 'preload-app', transformIndexHtml: { order: 'post', handler: preloadApp } },
    ],
    resolve: { alias: [{ find: /^(\.\.\/)+gen\//, replacement: `${CONTRACT}/` }] },
    build: {
      outDir: OUT,
      emptyOutDir: true,
      target: 'es2023',
      modulePreload: { polyfill: false },
      // The content security policy allows data: URLs only for the empty icon.
      assetsInlineLimit: 0,
      cssCodeSplit: false,
      chunkSizeWarningLimit: 800,
      rolldownOptions: {
        output: { codeSplitting: { groups: CHUNKS } },
        // "use client" directives have no effect here, so their warnings are ignored.
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

/** Makes the browser load the console itself at once, and not only when the first script imports it. */
function preloadApp(html: string, { bundle = {} }: IndexHtmlTransformContext): HtmlTagDescriptor[] {
  const app = Object.values(bundle).find(({ name }) => name === 'app') as Rolldown.OutputChunk
  return [app.fileName, ...app.imports]
    .filter((file) => !html.includes(file))
    .map((file) => ({
      tag: 'link',
      injectTo: 'head',
      attrs: { rel: 'modulepreload', crossorigin: true, href: `/console/${file}` },
    }))
}

function compress(path: string): void {
  const content = readFileSync(path)
  writeFileSync(`${path}.gz`, gzipSync(content, { level: 9 }))
  const params = { [constants.BROTLI_PARAM_QUALITY]: 11 }
  writeFileSync(`${path}.br`, brotliCompressSync(content, { params }))
}

/** The size of the page with the scripts and styles that it names. */
function firstLoadBytes(): number {
  const html = readFileSync(join(OUT, 'index.html'), 'utf8')
  const files = [...html.matchAll(/"\/console\/(assets\/[^"]+)"/g)].map(([, file]) => file ?? '')
  return ['index.html', ...files]
    .map((file) => statSync(join(OUT, `${file}.gz`)).size)
    .reduce((sum, size) => sum + size)
}

function kib(bytes: number): string {
  return `${(bytes / 1024).toFixed(0)} KiB`
}
