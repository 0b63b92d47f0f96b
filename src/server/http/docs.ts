import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import type { FastifyInstance } from 'fastify'

const FOLDER = join(import.meta.dirname, '../../../gen/docs')

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
}

/** The pages load their own files, and nothing else. `data:` is the empty icon. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

interface Served {
  readonly etag: string
  /** By content coding. */
  readonly bodies: Readonly<Record<'identity' | 'gzip' | 'br', Buffer>>
}

/** Serves the reference and the guides, as `npm run generate` made them: `/docs` and `/docs/<name>`. */
export async function registerDocs(app: FastifyInstance): Promise<void> {
  const names = await readdir(FOLDER)
  for (const name of names) {
    const extension = extname(name)
    const type = TYPES[extension]
    if (type === undefined) continue
    const path = name === 'index.html' ? '/docs' : `/docs/${name.replace('.html', '')}`
    let served: Promise<Served> | undefined
    app.get(path, async (request, reply) => {
      // Few services are asked for them: they are read and compressed at the first request.
      served ??= load(join(FOLDER, name))
      const { etag, bodies } = await served
      reply.headers({
        etag,
        'cache-control': 'public, no-cache',
        'content-security-policy': POLICY,
        vary: 'accept-encoding',
      })
      if (request.headers['if-none-match'] === etag) return reply.code(304).send()
      const coding = codingOf(request.headers['accept-encoding'])
      if (coding !== 'identity') reply.header('content-encoding', coding)
      return reply.header('content-type', type).send(bodies[coding])
    })
  }
}

async function load(path: string): Promise<Served> {
  const identity = await readFile(path)
  const quality = { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }
  const br = await promisify(brotliCompress)(identity, quality)
  const etag = `"${createHash('sha256').update(identity).digest('base64url')}"`
  return { etag, bodies: { identity, br, gzip: await promisify(gzip)(identity) } }
}

function codingOf(accepted: string | string[] | undefined): 'identity' | 'gzip' | 'br' {
  const codings = String(accepted ?? '')
    .split(',')
    .map((each) => each.trim())
  if (codings.includes('br')) return 'br'
  return codings.includes('gzip') ? 'gzip' : 'identity'
}
