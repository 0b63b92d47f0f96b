import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Logo } from '../../config/console-settings.ts'
import { Fault } from '../../core/errors.ts'

const ROOT = join(import.meta.dirname, '../../..')

/** The folder into which `npm run build:docs` writes the reference and the guides. */
const DOCS = join(ROOT, 'dist/docs')

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.yaml': 'application/yaml; charset=utf-8',
}

/** Pages can load only files of this server. `data:` allows the empty icon. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/** Scalar, which renders the reference, uses inline styles. */
const REFERENCE_POLICY = POLICY.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")

const QUALITY = { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }

interface Document {
  readonly etag: string
  readonly bodies: Readonly<Record<Coding, Buffer>>
}

/**
 * Serves the OpenAPI description of the REST API as `/openapi.json` and `/openapi.yaml`, and the reference and the guides as
 * `/docs` and `/docs/<name>`.
 */
export async function registerDocuments(app: FastifyInstance): Promise<void> {
  for (const name of ['openapi.json', 'openapi.yaml'])
    registerDocument(app, `/${name}`, join(ROOT, 'gen', name))
  if (!existsSync(DOCS)) {
    app.get('/docs', () => {
      throw new Fault('unknown_path', 'The documentation is not built: run npm run build:docs')
    })
    return
  }
  for (const name of await readdir(DOCS)) {
    const path = name === 'index.html' ? '/docs' : `/docs/${name.replace('.html', '')}`
    registerDocument(app, path, join(DOCS, name))
  }
}

function registerDocument(app: FastifyInstance, path: string, file: string): void {
  const type = TYPES[extname(file)]
  if (type === undefined) return
  let document: Promise<Document> | undefined
  app.get(path, async (request, reply) => {
    // Read and compressed at the first request, because few services are asked for these documents.
    document ??= load(file)
    const { etag, bodies } = await document
    // A document is the same for all callers, and changes only with the version of the service.
    reply.headers({ etag, 'cache-control': 'public, no-cache', vary: 'accept-encoding' })
    if (type.startsWith('text/html'))
      reply.header('content-security-policy', path === '/docs' ? REFERENCE_POLICY : POLICY)
    if (namesTag(request.headers['if-none-match'], etag)) return reply.code(304).send()
    const coding = codingOf(request.headers['accept-encoding'])
    if (coding !== 'identity') reply.header('content-encoding', coding)
    return reply.header('content-type', type).send(bodies[coding])
  })
}

async function load(path: string): Promise<Document> {
  const identity = await readFile(path)
  const etag = `"${createHash('sha256').update(identity).digest('base64url')}"`
  const br = await promisify(brotliCompress)(identity, QUALITY)
  return { etag, bodies: { identity, br, gzip: await promisify(gzip)(identity) } }
}

/** Whether an If-None-Match header contains a tag, which a compressing proxy may have made weak (`W/`). */
function namesTag(header: string | undefined, etag: string): boolean {
  return (header ?? '').split(',').some((tag) => ['*', etag, `W/${etag}`].includes(tag.trim()))
}

/** A content coding of a response. */
type Coding = 'identity' | 'gzip' | 'br'

/** The best coding that a client accepts. @param accepted the Accept-Encoding header */
function codingOf(accepted: string | string[] | undefined): Coding {
  const codings = String(accepted ?? '')
    .split(',')
    .map((each) => each.trim())
  if (codings.includes('br')) return 'br'
  return codings.includes('gzip') ? 'gzip' : 'identity'
}

/** The folder into which `npm run build:console` writes the console. */
const CONSOLE = join(ROOT, 'dist/console')

/** Whether the console is built: `npm ci --omit=dev` does not build it. */
export const isConsoleBuilt = (): boolean => existsSync(join(CONSOLE, 'index.html'))

/** The policy of the console, which also has forms and shows the logo of portals. */
const CONSOLE_POLICY = POLICY.replace("form-action 'none'", "form-action 'self'").replace(
  'img-src data:',
  "img-src 'self' data:",
)

/** The path of the logo of portals. */
export const LOGO_PATH = '/console/logo'

/** With this policy, an SVG that is opened as a page runs no script, loads nothing and has no origin. */
const LOGO_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"

/** The suffixes of the compressed copies that the build writes next to each file. */
const SUFFIXES = { identity: '', gzip: '.gz', br: '.br' } as const

/**
 * Serves the console: its page at `/console` and at all paths below, which the page routes itself, and its files, whose
 * names change with their content.
 *
 * @param logo of portals; undefined: no logo
 */
export function registerConsole(app: FastifyInstance, logo: Logo | undefined): void {
  const sendPage = async (request: FastifyRequest, reply: FastifyReply) => {
    // Browsers revalidate the page each time, because it contains the names of the current files.
    reply.headers({ 'content-security-policy': CONSOLE_POLICY, 'cache-control': 'no-cache' })
    const sent = await sendFile(request, reply, 'index.html')
    if (sent === undefined) {
      throw new Fault('unknown_path', 'The console is not built: run npm run build:console')
    }
    return sent
  }
  if (logo !== undefined) {
    app.get(LOGO_PATH, (request, reply) => {
      const { bytes, etag, type } = logo
      reply.headers({ etag, 'cache-control': 'public, no-cache' })
      reply.headers({ 'content-type': type, 'content-security-policy': LOGO_POLICY })
      if (namesTag(request.headers['if-none-match'], etag)) return reply.code(304).send()
      return reply.send(bytes)
    })
  }
  app.get('/console', sendPage)
  app.get('/console/*', sendPage)
  app.get<{ Params: { name: string } }>('/console/assets/:name', async (request, reply) => {
    reply.header('cache-control', 'public, max-age=31536000, immutable')
    const { name } = request.params
    const isName = /^[\w.-]+$/.test(name)
    const sent = isName ? await sendFile(request, reply, `assets/${name}`) : undefined
    if (sent !== undefined) return sent
    // A missing file must not be cached for a year.
    reply.header('cache-control', 'no-store')
    throw new Fault('unknown_path', 'The console has no such file')
  })
}

/** Sends a file in the best coding; undefined if there is no such file. */
async function sendFile(
  request: FastifyRequest,
  reply: FastifyReply,
  name: string,
): Promise<FastifyReply | undefined> {
  const type = TYPES[extname(name)]
  if (type === undefined) return undefined
  // Loaded at the first request, so that instances that never serve the console start faster.
  const { send } = await import('@fastify/send')
  const coding = codingOf(request.headers['accept-encoding'])
  const found = await send(request.raw, `/${name}${SUFFIXES[coding]}`, {
    root: CONSOLE,
    index: false,
    acceptRanges: false,
    cacheControl: false,
    contentType: false,
  })
  if (found.type === 'error') return undefined
  reply.code(found.statusCode).headers(found.headers)
  reply.headers({ 'content-type': type, vary: 'accept-encoding' })
  if (coding !== 'identity') reply.header('content-encoding', coding)
  return reply.send(found.stream)
}
