import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { renderMarkdown } from './markdown.ts'
import type { Page, SearchEntry } from './site.ts'

/** The guides in the order of the contents; a guide that is not named follows, in the order of its name. */
const ORDER = [
  'rest-api',
  'webhooks',
  'events',
  'errors',
  'one-time-accounts',
  'splits',
  'settlement',
]

/** The guides: the documents of a folder. @throws if a link leads nowhere */
export async function renderGuides(folder: string): Promise<readonly Page[]> {
  const names = (await readdir(folder))
    .filter((name) => name.endsWith('.md'))
    .map((name) => name.slice(0, -3))
  const rank = (name: string) => (ORDER.includes(name) ? ORDER.indexOf(name) : ORDER.length)
  names.sort((a, b) => rank(a) - rank(b) || a.localeCompare(b))
  const pages = await Promise.all(
    names.map(async (name) =>
      renderGuide(name, await readFile(join(folder, `${name}.md`), 'utf8')),
    ),
  )
  const anchors = new Set(pages.flatMap(({ path, anchors }) => [path, ...anchors]))
  for (const { name, links } of pages) {
    for (const link of links) {
      if (!anchors.has(link)) throw new Error(`${name}.md: a link leads nowhere: ${link}`)
    }
  }
  return pages.map(({ page }) => page)
}

function renderGuide(name: string, source: string) {
  const path = `/docs/${name}`
  const links: string[] = []
  const hrefOf = (target: string) => {
    if (/^https?:/.test(target)) return target
    // What is not on the site is in the repository.
    if (!/^([\w-]+\.md)?(#.*)?$/.test(target)) return undefined
    const href = target.startsWith('#')
      ? path + target
      : `/docs/${target.replace(/\.md(?=#|$)/, '')}`
    links.push(href)
    return href
  }
  const { html, headings } = renderMarkdown(source, hrefOf)
  const title = headings.find(({ level }) => level === 1)?.text ?? name
  const sections = headings.filter(({ level }) => level === 2 || level === 3)
  const search: SearchEntry[] = [
    { title, href: path, text: textOf(source) },
    ...sections.map(({ text, id }) => ({ title: `${title}: ${text}`, href: `${path}#${id}` })),
  ]
  const page: Page = {
    path,
    title,
    group: 'Guides',
    html: `<article>${html}</article>`,
    sections,
    search,
  }
  return { name, path, links, anchors: headings.map(({ id }) => `${path}#${id}`), page }
}

/** The words of a document, once each: a search finds it by them. */
function textOf(source: string): string {
  return [...new Set(source.toLowerCase().match(/[\p{L}\p{N}_]{3,}/gu))].join(' ')
}
