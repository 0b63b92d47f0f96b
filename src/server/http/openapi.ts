import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'

const FOLDER = join(import.meta.dirname, '../../../gen')

const TYPES = {
  'openapi.json': 'application/json; charset=utf-8',
  'openapi.yaml': 'application/yaml; charset=utf-8',
} as const

/** Serves the description of the REST API, as `npm run generate` made it, in JSON and in YAML. */
export async function registerOpenApi(app: FastifyInstance): Promise<void> {
  for (const [name, type] of Object.entries(TYPES)) {
    const document = await readFile(join(FOLDER, name))
    const etag = `"${createHash('sha256').update(document).digest('base64url')}"`
    app.get(`/${name}`, (request, reply) => {
      // It is the same for everybody, and changes only with the version of the service.
      reply.headers({ etag, 'cache-control': 'public, no-cache' })
      if (namesTag(request.headers['if-none-match'], etag)) return reply.code(304).send()
      return reply.header('content-type', type).send(document)
    })
  }
}

/** Whether an If-None-Match header names a tag; a proxy that compresses weakens it (`W/`). */
function namesTag(header: string | undefined, etag: string): boolean {
  return (header ?? '').split(',').some((tag) => ['*', etag, `W/${etag}`].includes(tag.trim()))
}
