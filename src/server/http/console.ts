import { extname, join } from 'node:path'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Fault } from '../../core/errors.ts'
import { codingOf } from './content-coding.ts'

/** Where `npm run build:console` puts it. */
const FOLDER = join(import.meta.dirname, '../../../dist/console')

/** The console loads its own files and calls the service that it came from. `data:` is the empty icon. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
}

/** The build compressed each file into others beside it. */
const SUFFIXES = { identity: '', gzip: '.gz', br: '.br' } as const

/**
 * Serves the console: its page at `/console` and at every path below, which the page itself reads, and its files,
 * whose names change with their content.
 */
export function registerConsole(app: FastifyInstance): void {
  const sendPage = async (request: FastifyRequest, reply: FastifyReply) => {
    // It names the files, so it is asked for anew each time.
    reply.headers({ 'content-security-policy': POLICY, 'cache-control': 'no-cache' })
    const sent = await sendFile(request, reply, 'index.html')
    if (sent === undefined) {
      throw new Fault('unknown_path', 'The console is not built: run npm run build:console')
    }
    return sent
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
    root: FOLDER,
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
