import { copyFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { renderGuides } from './guides.ts'
import { layOut } from './layout.ts'
import { renderReference } from './reference.ts'

/** Builds the site of the documentation into `gen/docs`, from the OpenAPI document and the guides. */
const ROOT = join(import.meta.dirname, '../../..')
const TARGET = join(ROOT, 'gen/docs')

const openApi = JSON.parse(await readFile(join(ROOT, 'gen/openapi.json'), 'utf8'))
const pages = [renderReference(openApi), ...(await renderGuides(join(ROOT, 'src/docs')))]
await rm(TARGET, { recursive: true, force: true })
await mkdir(TARGET, { recursive: true })
for (const page of pages) {
  const name = page.path === '/docs' ? 'index' : page.path.slice('/docs/'.length)
  await writeFile(join(TARGET, `${name}.html`), layOut(page, pages))
}
const search = pages.flatMap((page) => page.search)
await writeFile(join(TARGET, 'search.json'), `${JSON.stringify(search)}\n`)
for (const asset of ['docs.css', 'docs.js']) {
  await copyFile(join(import.meta.dirname, 'assets', asset), join(TARGET, asset))
}
