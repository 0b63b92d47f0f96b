import MarkdownIt from 'markdown-it'

/** A guide of `src/docs`, rendered. */
export interface Guide {
  readonly name: string
  /** The first heading of the guide, as HTML. */
  readonly title: string
  readonly html: string
}

const markdown = new MarkdownIt()
markdown.renderer.rules['table_open'] = () => '<div class="scroll" tabindex="0"><table>'
markdown.renderer.rules['table_close'] = () => '</table></div>'

/** Renders Markdown. Headings get ids, and links work both on the site and in the repository. */
export function renderGuide(name: string, source: string): Guide {
  const tokens = markdown.parse(source, {})
  let title: string | undefined
  for (const [index, token] of tokens.entries()) {
    if (token.type === 'heading_open') {
      const heading = (tokens[index + 1]?.children ?? []).map(({ content }) => content).join('')
      token.attrSet('id', slugOf(heading))
      title ??= markdown.utils.escapeHtml(heading)
    }
    // Code blocks can be scrolled by keyboard.
    if (token.type === 'fence') token.attrSet('tabindex', '0')
    for (const link of token.children ?? []) {
      if (link.type !== 'link_open') continue
      const href = hrefOf(String(link.attrGet('href')))
      if (href === undefined) link.attrs = null
      else link.attrSet('href', href)
    }
  }
  return {
    name,
    title: title ?? name,
    html: markdown.renderer.render(tokens, markdown.options, {}),
  }
}

/** The target of a link on the site; undefined if the target exists only in the repository. */
function hrefOf(target: string): string | undefined {
  if (/^https?:|^#/.test(target)) return target
  return /^[\w-]+\.md(#.*)?$/.test(target) ? `/docs/${target.replace('.md', '')}` : undefined
}

/** The id of a heading, as GitHub makes it. */
export function slugOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}_ -]/gu, '')
    .replaceAll(' ', '-')
}
