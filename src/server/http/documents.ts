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

/** Where `npm run build:docs` puts the reference and the guides. */
const DOCS = join(ROOT, 'dist/docs')

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.yaml': 'application/yaml; charset=utf-8',
}

/** Pages load their own files, and nothing else. `data:` is the empty icon. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/** Scalar, which shows the reference, writes its styles into the page. */
const REFERENCE_POLICY = POLICY.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")

const QUALITY = { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }

interface Document {
  readonly etag: string
  readonly bodies: Readonly<Record<Coding, Buffer>>
}

/**
 * Serves what readers need: the description of the REST API as `/openapi.json` and `/openapi.yaml`, and the
 * reference and the guides as `/docs` and `/docs/<name>`.
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
    // Few services are asked for them: they are read and compressed at the first request.
    document ??= load(file)
    const { etag, bodies } = await document
    // It is the same for everybody, and changes only with the version of the service.
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

/** Whether an If-None-Match header names a tag; a proxy that compresses weakens it (`W/`). */
function namesTag(header: string | undefined, etag: string): boolean {
  return (header ?? '').split(',').some((tag) => ['*', etag, `W/${etag}`].includes(tag.trim()))
}

/** How the bytes of a response are coded. */
type Coding = 'identity' | 'gzip' | 'br'

/** The best coding that a client accepts. @param accepted its Accept-Encoding header */
export function codingOf(accepted: string | string[] | undefined): Coding {
  const codings = String(accepted ?? '')
    .split(',')
    .map((each) => each.trim())
  if (codings.includes('br')) return 'br'
  return codings.includes('gzip') ? 'gzip' : 'identity'
}

/** Where `npm run build:console` puts it. */
const CONSOLE = join(ROOT, 'dist/console')

/** Whether there is a console: `npm ci --omit=dev` makes none. */
export const isConsoleBuilt = (): boolean => existsSync(join(CONSOLE, 'index.html'))

/** The console has forms, and the logo of portals. */
const CONSOLE_POLICY = POLICY.replace("form-action 'none'", "form-action 'self'").replace(
  'img-src data:',
  "img-src 'self' data:",
)

/** Where the logo of portals is. */
export const LOGO_PATH = '/console/logo'

/** An SVG that is opened by itself runs no script, loads nothing and has no origin. */
const LOGO_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"

/** The build compressed each file into others beside it. */
const SUFFIXES = { identity: '', gzip: '.gz', br: '.br' } as const

/**
 * Serves the console: its page at `/console` and at every path below, which the page itself reads, and its files,
 * whose names change with their content.
 *
 * @param logo of portals; undefined: they have none
 */
export function registerConsole(app: FastifyInstance, logo: Logo | undefined): void {
  const sendPage = async (request: FastifyRequest, reply: FastifyReply) => {
    // It names the files, so it is asked for anew each time.
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
    // Not for a year.
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
  // Loaded at the first request: most instances are not asked for the console, and all of them start.
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
