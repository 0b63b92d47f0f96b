/**
 * Builds the pages under `/docs` into `dist/docs`: the reference, in which Scalar renders
 * `/openapi.json`, and the guides. npm runs this after each installation. Without the development dependencies, it
 * leaves an existing build unchanged.
 */
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import fastify from 'fastify'
import type { Guide } from './guide.ts'

const GUIDES = join(import.meta.dirname, '../../docs')
const OUT = join(import.meta.dirname, '../../../dist/docs')

const scalar = await import('@scalar/fastify-api-reference').catch(() => undefined)
if (scalar === undefined) {
  process.stdout.write('inflow: /docs is not built, because Scalar is not installed\n')
} else {
  rmSync(OUT, { recursive: true, force: true })
  mkdirSync(OUT, { recursive: true })
  await writeReference(scalar.default)
  await writeGuides()
  copyFileSync(join(import.meta.dirname, 'docs.css'), join(OUT, 'docs.css'))
}

/** Writes the reference. Scalar's plugin provides the library with all of its dependencies as one file. */
async function writeReference(plugin: typeof import('@scalar/fastify-api-reference').default) {
  const app = fastify()
  await app.register(plugin, { routePrefix: '/docs', configuration: { url: '/openapi.json' } })
  const response = await app.inject('/docs/js/scalar.js')
  if (response.statusCode !== 200) throw new Error(`Scalar answered ${response.statusCode}`)
  writeFileSync(join(OUT, 'scalar.js'), response.body)
  copyFileSync(join(import.meta.dirname, 'reference.js'), join(OUT, 'reference.js'))
  writePage('index', 'Inflow', [
    '<div id="reference"></div>',
    '<noscript>The reference needs JavaScript. It shows <a href="/openapi.yaml">openapi.yaml</a>.</noscript>',
    '<script src="/docs/scalar.js"></script>',
    '<script src="/docs/reference.js"></script>',
  ])
  await app.close()
}

async function writeGuides() {
  const { renderGuide } = await import('./guide.ts')
  const guides: Guide[] = readdirSync(GUIDES)
    .filter((name) => name.endsWith('.md'))
    .map((name) => renderGuide(name.slice(0, -3), readFileSync(join(GUIDES, name), 'utf8')))
  for (const { name, title, html } of guides) {
    writePage(name, `${title} · Inflow`, [`<main class="guide">${html}</main>`])
  }
  const links = guides.map(({ name, title }) => `<li><a href="/docs/${name}">${title}</a></li>`)
  writePage('guides', 'Guides · Inflow', [
    `<main class="guide"><h1>Guides</h1><ul>${links.join('')}</ul></main>`,
  ])
}

function writePage(name: string, title: string, body: readonly string[]) {
  const lines = [
    '<!doctype html>',
    '<html lang="en">',
    '<head>',
    '<meta charset="utf-8">',
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    `<title>${title}</title>`,
    '<link rel="stylesheet" href="/docs/docs.css">',
    '<link rel="icon" href="data:,">',
    '</head>',
    '<body>',
    '<header class="links"><a href="/docs">Inflow API</a><a href="/docs/guides">Guides</a><a href="/openapi.json">OpenAPI</a></header>',
    ...body,
    '</body>',
    '</html>',
  ]
  writeFileSync(join(OUT, `${name}.html`), `${lines.join('\n')}\n`)
}
