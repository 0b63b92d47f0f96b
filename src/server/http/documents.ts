import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import type { FastifyInstance } from 'fastify'
import { type Coding, codingOf } from './content-coding.ts'

const FOLDER = join(import.meta.dirname, '../../../gen')

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

const QUALITY = { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }

interface Document {
  readonly etag: string
  readonly bodies: Readonly<Record<Coding, Buffer>>
}

/**
 * Serves what `npm run generate` made for readers: the description of the REST API as `/openapi.json` and
 * `/openapi.yaml`, and the reference and the guides as `/docs` and `/docs/<name>`.
 */
export async function registerDocuments(app: FastifyInstance): Promise<void> {
  const documents = new Map(['openapi.json', 'openapi.yaml'].map((name) => [`/${name}`, name]))
  for (const name of await readdir(join(FOLDER, 'docs'))) {
    const path = name === 'index.html' ? '/docs' : `/docs/${name.replace('.html', '')}`
    documents.set(path, `docs/${name}`)
  }
  for (const [path, name] of documents) registerDocument(app, path, name)
}

function registerDocument(app: FastifyInstance, path: string, name: string): void {
  const type = TYPES[extname(name)]
  if (type === undefined) return
  let document: Promise<Document> | undefined
  app.get(path, async (request, reply) => {
    // Few services are asked for them: they are read and compressed at the first request.
    document ??= load(join(FOLDER, name))
    const { etag, bodies } = await document
    // It is the same for everybody, and changes only with the version of the service.
    reply.headers({ etag, 'cache-control': 'public, no-cache', vary: 'accept-encoding' })
    if (type.startsWith('text/html')) reply.header('content-security-policy', POLICY)
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
