import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import { gunzipSync } from 'node:zlib'
import { listen } from './listen.ts'
import { waitFor } from './wait-for.ts'

/** A span as it was exported. */
export interface ExportedSpan {
  readonly traceId: string
  readonly spanId: string
  /** Empty: it begins its trace. */
  readonly parentSpanId: string
  readonly name: string
  /** As in OTLP: 1 internal, 2 server, 3 client, 4 producer. */
  readonly kind: number
  readonly attributes: Readonly<Record<string, unknown>>
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[]
  /** As in OTLP: 2 is an error. */
  readonly status: number
  /** Of the resource. */
  readonly resource: Readonly<Record<string, unknown>>
}

interface OtlpAttribute {
  readonly key: string
  readonly value: Readonly<Record<string, unknown>>
}

interface OtlpSpan {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly kind: number
  readonly attributes: readonly OtlpAttribute[]
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[]
  readonly status: { readonly code?: number }
}

interface OtlpRequest {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly OtlpAttribute[] }
    readonly scopeSpans: readonly { readonly spans: readonly OtlpSpan[] }[]
  }[]
}

/** How the collector responds: a status, or not at all. */
type CollectorAnswer = number | 'hang'

/** A collector over HTTP, which decodes OTLP. */
export interface Collector {
  readonly url: string
  readonly spans: readonly ExportedSpan[]
  /** The bodies of all exports, as text. */
  text(): string
  readonly headers: readonly IncomingHttpHeaders[]
  answer(how: CollectorAnswer): void
  /** Waits for spans. @returns all that match */
  waitFor(matches: (span: ExportedSpan) => boolean, count?: number): Promise<ExportedSpan[]>
  close(): Promise<void>
}

export async function startCollector(): Promise<Collector> {
  const spans: ExportedSpan[] = []
  const headers: IncomingHttpHeaders[] = []
  const texts: string[] = []
  let how: CollectorAnswer = 200
  const respond = (response: ServerResponse, body: Buffer): void => {
    if (how === 'hang') return
    if (how === 200) {
      const text = body.toString('utf8')
      texts.push(text)
      spans.push(...decode(JSON.parse(text) as OtlpRequest))
    }
    response.writeHead(how, { 'content-type': 'application/json' }).end('{}')
  }
  const server = createServer((request, response) => {
    headers.push(request.headers)
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const body = Buffer.concat(chunks)
      respond(response, request.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body)
    })
  })
  const port = await listen(server)
  return {
    url: `http://127.0.0.1:${port}`,
    spans,
    text: () => texts.join('\n'),
    headers,
    answer: (next) => {
      how = next
    },
    waitFor: (matches, count = 1) =>
      waitFor(() => {
        const found = spans.filter(matches)
        if (found.length >= count) return found
        const names = spans.map(({ name, traceId }) => `${name} ${traceId}`).join('\n')
        throw new Error(`${found.length} of ${count} spans arrived, among\n${names}`)
      }),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

function decode({ resourceSpans }: OtlpRequest): ExportedSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map((span) => ({
        ...span,
        parentSpanId: span.parentSpanId ?? '',
        attributes: valuesOf(span.attributes),
        links: span.links,
        status: span.status.code ?? 0,
        resource: valuesOf(resource.attributes),
      })),
    ),
  )
}

function valuesOf(attributes: readonly OtlpAttribute[]): Record<string, unknown> {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]))
}
