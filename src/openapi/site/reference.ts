import { jsonOf, type OpenApi, type Operation, type Response, resolve } from './document.ts'
import { fieldTable } from './fields.ts'
import { codeBlock, escapeHtml } from './html.ts'
import { LANGUAGES } from './layout.ts'
import { type Heading, renderMarkdown } from './markdown.ts'
import { type Language, samplesOf } from './samples.ts'
import type { Page, SearchEntry } from './site.ts'

/** The reference: all requests and all webhooks on one page. */
export function renderReference(document: OpenApi): Page {
  const operations = Object.entries(document.paths).map(([path, { post }]) => ({ path, post }))
  const sections: Heading[] = []
  const heading = (level: number, text: string, id: string) => {
    sections.push({ level, text, id })
    return `<h${level} id="${id}">${escapeHtml(text)}</h${level}>`
  }
  const tags = document.tags.map(({ name, description }) => {
    const own = operations.filter(({ post }) => post.tags?.includes(name))
    return `${heading(2, capitalized(name), name)}<p>${escapeHtml(description)}</p>
${own.map(({ path, post }) => requestSection(document, path, post, heading(3, `${post.operationId}/`, post.operationId))).join('\n')}`
  })
  const kinds = Object.entries(document.webhooks).map(([kind, { post }]) =>
    webhookSection(document, post, heading(3, kind, kind)),
  )
  // Headings are collected in the order of the page.
  const webhooks = `${heading(2, 'Webhook events', 'webhook-events')}${signature(document)}`
  const at = sections.findIndex(({ id }) => id in document.webhooks)
  sections.splice(at, 0, ...sections.splice(sections.length - 1, 1))
  return {
    path: '/docs',
    title: 'REST API',
    group: 'Reference',
    html: `<div class="reference"><h1>Reference</h1>
<div class="intro">${markdown(document.info.description)}</div>
<fieldset class="languages"><legend>Examples in</legend>${languageChoice()}</fieldset>
${tags.join('\n')}
${webhooks}
${kinds.join('\n')}</div>`,
    sections,
    search: [...operations.map(entryOf), ...Object.keys(document.webhooks).map(kindEntry)],
  }
}

/** A choice that works without JavaScript: the style sheet shows the examples in the checked language. */
function languageChoice(): string {
  return Object.entries(LANGUAGES)
    .map(
      ([id, name], index) =>
        `<label><input type="radio" name="language" id="in-${id}" value="${id}"${index === 0 ? ' checked' : ''}> ${name}</label>`,
    )
    .join('')
}

function requestSection(
  document: OpenApi,
  path: string,
  operation: Operation,
  heading: string,
): string {
  const request = jsonOf(operation.requestBody)
  const response = jsonOf(resolve(document, operation.responses['200'] as Response))
  if (request === undefined || response === undefined) throw new Error(`${path} has no JSON`)
  const samples = samplesOf(path, request.example ?? {})
  const fields = fieldTable(document, request.schema, 'request', inline)
  return `<section class="operation">
<div class="prose">${heading}<p class="path"><b>POST</b> <code>${escapeHtml(path)}</code></p>
${markdown(operation.description)}
<h4>Request</h4>${fields || '<p>It has no fields: send <code>{}</code>.</p>'}
<h4>Response</h4>${fieldTable(document, response.schema, 'answer', inline)}
<h4>Errors</h4>${errorList(document, operation)}</div>
<div class="examples">${(Object.keys(LANGUAGES) as Language[]).map((language) => codeBlock(samples[language], language)).join('')}
<p>Response</p>${codeBlock(JSON.stringify(response.example ?? {}, null, 2), 'json')}</div>
</section>`
}

/** The errors of a request, with a link to what each means. */
function errorList(document: OpenApi, { responses }: Operation): string {
  const codes = Object.entries(responses).flatMap(([status, response]) => {
    if (status === '200') return []
    const { examples = {} } = jsonOf(resolve(document, response as Response)) ?? {}
    return Object.keys(examples).map(
      (code) =>
        `<li>${status} <a href="/docs/errors#${escapeHtml(code)}"><code>${escapeHtml(code)}</code></a></li>`,
    )
  })
  return `<ul class="errors">${codes.join('')}</ul>`
}

function signature(document: OpenApi): string {
  const rows = Object.values(document.components.parameters).map(
    ({ name, description }) =>
      `<tr><th scope="row"><code>${escapeHtml(name)}</code></th><td>${inline(description)}</td></tr>`,
  )
  return `<p>Each is a POST of JSON to your endpoint, with these headers. How to verify one, also without a library, is in
<a href="/docs/webhooks">Webhooks</a>. Acknowledge it with any status of 200 to 299.</p>
<div class="scroll" tabindex="0"><table class="fields"><tbody>${rows.join('')}</tbody></table></div>`
}

function webhookSection(document: OpenApi, operation: Operation, heading: string): string {
  const body = jsonOf(operation.requestBody)
  if (body === undefined) throw new Error(`${operation.operationId} has no JSON`)
  return `<section class="operation">
<div class="prose">${heading}${markdown(operation.description)}${fieldTable(document, body.schema, 'answer', inline)}</div>
<div class="examples">${codeBlock(JSON.stringify(body.example ?? {}, null, 2), 'json')}</div>
</section>`
}

function entryOf({ path, post }: { readonly path: string; readonly post: Operation }): SearchEntry {
  return { title: path, href: `/docs#${post.operationId}`, text: post.summary.toLowerCase() }
}

function kindEntry(kind: string): SearchEntry {
  return { title: kind, href: `/docs#${kind}`, text: 'webhook event' }
}

const capitalized = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1)

/** Comments of the contract link nothing but web pages. */
const hrefOf = (target: string): string | undefined =>
  /^(https:|\/docs)/.test(target) ? target : undefined

/** Headings inside a description would break the outline of the page. */
const markdown = (text: string): string =>
  renderMarkdown(text.replaceAll(/^#+ (.*)$/gm, '**$1**'), hrefOf).html

/** A description of one paragraph, in a table. */
const inline = (text: string): string => markdown(text).replaceAll(/^<p>|<\/p>\n?$/g, '')
