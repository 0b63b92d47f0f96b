import MarkdownIt from 'markdown-it'
import { codeBlock, slugOf } from './html.ts'

/** A heading of a document. */
export interface Heading {
  readonly level: number
  readonly text: string
  readonly id: string
}

export interface Rendered {
  readonly html: string
  readonly headings: readonly Heading[]
}

/**
 * Renders Markdown, without HTML inside it, so that a comment of the contract cannot become markup.
 *
 * @param hrefOf the address of a link's target on the site; undefined: the link becomes plain text
 */
export function renderMarkdown(
  source: string,
  hrefOf: (target: string) => string | undefined,
): Rendered {
  const markdown = new MarkdownIt({ html: false, typographer: false })
  const headings: Heading[] = []
  markdown.renderer.rules['fence'] = (tokens, index) => {
    const { content = '', info = '' } = tokens[index] ?? {}
    return codeBlock(content, info.trim() || 'text')
  }
  markdown.renderer.rules['table_open'] = () => '<div class="scroll" tabindex="0"><table>'
  markdown.renderer.rules['table_close'] = () => '</table></div>'
  markdown.core.ruler.push('site', ({ tokens }) => {
    for (const [index, token] of tokens.entries()) {
      const inline = tokens[index + 1]
      if (token.type === 'heading_open' && inline !== undefined) {
        const text = plainText(inline)
        const heading = { level: Number(token.tag.slice(1)), text, id: slugOf(text) }
        token.attrSet('id', heading.id)
        headings.push(heading)
      }
      for (const child of token.children ?? []) {
        if (child.type !== 'link_open') continue
        const href = hrefOf(String(child.attrGet('href')))
        if (href === undefined) child.attrs = null
        else child.attrSet('href', href)
      }
    }
  })
  return { html: markdown.render(source), headings }
}

function plainText(inline: { readonly children: readonly { content: string }[] | null }): string {
  return (inline.children ?? []).map(({ content }) => content).join('')
}
