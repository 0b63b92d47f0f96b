import { existsSync } from 'node:fs'
import { join } from 'node:path'
import staticFiles from '@fastify/static'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { Fault } from '../../core/errors.ts'

/** Where `npm run build:console` puts it. */
const FOLDER = join(import.meta.dirname, '../../../dist/console')

/** The console loads its own files and calls the service that it came from. `data:` is the empty icon. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

/**
 * Serves the console: its page at `/console` and every path below, which the page itself reads, and its files,
 * whose names change with their content.
 */
export async function registerConsole(app: FastifyInstance): Promise<void> {
  const isBuilt = existsSync(join(FOLDER, 'index.html'))
  await app.register(staticFiles, {
    root: FOLDER,
    serve: false,
    preCompressed: true,
    // The page itself is asked for anew each time: it names the files.
    cacheControl: false,
  })
  const sendPage = (reply: FastifyReply) => {
    if (!isBuilt) {
      throw new Fault('unknown_path', 'The console is not built: run npm run build:console')
    }
    reply.headers({ 'content-security-policy': POLICY, 'cache-control': 'no-cache' })
    return reply.sendFile('index.html')
  }
  app.get('/console', (_request, reply) => sendPage(reply))
  app.get('/console/*', (_request, reply) => sendPage(reply))
  app.get<{ Params: { '*': string } }>('/console/assets/*', (request, reply) => {
    reply.header('cache-control', 'public, max-age=31536000, immutable')
    return reply.sendFile(`assets/${request.params['*']}`)
  })
}
