import { escapeHtml } from './html.ts'
import type { Page } from './site.ts'

/** The languages of examples, by their mark in the page. */
export const LANGUAGES = {
  sh: 'curl',
  ts: 'TypeScript',
  python: 'Python',
  php: 'PHP',
  go: 'Go',
} as const

/** A whole page. It works without JavaScript, which adds the search, the copy buttons and the address. */
export function layOut(page: Page, pages: readonly Page[]): string {
  const title = page.path === '/docs' ? 'Inflow' : `${escapeHtml(page.title)} · Inflow`
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<link rel="stylesheet" href="/docs/docs.css">
<link rel="icon" href="data:,">
<script src="/docs/docs.js" defer></script>
</head>
<body>
<a class="skip" href="#main">To the content</a>
<header>
<a class="name" href="/docs">Inflow</a>
<form role="search" hidden><input type="search" placeholder="Search" aria-label="Search" autocomplete="off" maxlength="100"><ul aria-label="Found"></ul></form>
<a href="/openapi.json">OpenAPI</a>
</header>
<div class="page">
<nav aria-label="Contents"><details open><summary>Contents</summary>
${(['Guides', 'Reference'] as const).map((group) => contents(group, page, pages)).join('\n')}
</details></nav>
<main id="main">
${page.html}
</main>
</div>
</body>
</html>
`
}

function contents(group: Page['group'], current: Page, pages: readonly Page[]): string {
  const items = pages
    .filter((page) => page.group === group)
    .map((page) => {
      const isCurrent = page === current
      const mark = isCurrent ? ' aria-current="page"' : ''
      const own = `<a href="${page.path}"${mark}>${escapeHtml(page.title)}</a>`
      // The reference is one page: its contents are those of the site.
      const shown = isCurrent || page.group === 'Reference' ? sections(page) : ''
      return `<li>${own}${shown}</li>`
    })
  return `<h2>${group}</h2><ul>${items.join('')}</ul>`
}

function sections({ path, sections }: Page): string {
  if (sections.length === 0) return ''
  const items = sections.map(
    ({ level, text, id }) =>
      `<li class="level-${level}"><a href="${path}#${id}">${escapeHtml(text)}</a></li>`,
  )
  return `<ul>${items.join('')}</ul>`
}
