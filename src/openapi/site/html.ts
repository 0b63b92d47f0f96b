/** Text as HTML, also inside attributes. */
export function escapeHtml(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}

/** The id of a heading, as GitHub makes it, so that links work there and here. */
export function slugOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}_ -]/gu, '')
    .replaceAll(' ', '-')
}

/** A block of code. Its addresses of the local service are replaced by that of the page. */
export function codeBlock(code: string, language: string): string {
  return `<div class="code" data-language="${escapeHtml(language)}"><pre tabindex="0"><code>${escapeHtml(code.trimEnd())}</code></pre></div>`
}
