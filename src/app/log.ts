import pino, { type DestinationStream, type Logger } from 'pino'
import { withTimeout } from '../core/concurrency.ts'
import { currentRequest } from '../core/tracing.ts'

/** How many nested causes of an error are logged. */
const CAUSES_MAX = 5

/** Fields that are never logged, even if they come from the error of a library. */
const PRIVATE_FIELDS = [
  'authorization',
  'password',
  'secret',
  'secret_key',
  'secretKey',
  'token',
  'id_number',
  'idNumber',
  'headers',
  'body',
]

/** Our own credentials, including those of browsers, and credentials in headers, URLs and PEM. */
const CREDENTIALS =
  /\b(sk_(?:live|test)_[0-9a-z]{10})[\w-]+|\b((?:it|is|ic|pl)_[0-9a-z]{10})[0-9a-z]{16}_[\w-]+|\b(whsec_)[\w+/=-]+|\b(inflow_[a-z]+_)[\w-]{16,}|\b(Bearer +)[^\s"\\]+|(:\/\/[^\s:/@"]*:)[^\s/@"]+(?=@)|(-----BEGIN [A-Z ]*PRIVATE KEY-----)[^"]+?(?=-----END|")/g

/** The form of identity numbers, which the text of an error may contain. */
const IDENTITY_NUMBERS = /(?<!\d)\d{11}(?!\d)/g

const HIDDEN = '[redacted]'

/** The destination of log lines. */
interface LogDestination extends DestinationStream {
  /** @param done called when all lines so far are written */
  flush?(done: () => void): void
}

/** How long a process that exits waits for the reader of its log. */
const FLUSH_MS = 500

/** Waits until the log is written, before the process exits: a write in progress could be lost or come out of order. */
export async function flushLog(log: Logger): Promise<void> {
  await withTimeout(new Promise<void>((resolve) => log.flush(() => resolve())), FLUSH_MS)
}

/**
 * Creates the log, with one JSON object a line. Each log statement chooses its fields. The redaction here is a
 * second safeguard against errors of libraries that have further fields.
 *
 * @param secrets texts that are redacted everywhere
 */
export function createLog(
  level: string,
  secrets: readonly string[],
  destination: LogDestination,
): Logger {
  return pino(
    {
      level,
      formatters: { level: (label) => ({ level: label }) },
      timestamp: pino.stdTimeFunctions.isoTime,
      // The ids of the current request.
      mixin: () => ({ ...currentRequest() }),
      redact: {
        paths: PRIVATE_FIELDS.flatMap((field) => [field, `*.${field}`, `*.*.${field}`]),
        censor: HIDDEN,
      },
      serializers: { err: (error: unknown) => describe(error, CAUSES_MAX) },
      hooks: {
        streamWrite: (line) => {
          let text = line.replace(
            CREDENTIALS,
            (_match, ...groups: (string | undefined)[]) =>
              (groups.slice(0, 7).find((prefix) => prefix !== undefined) ?? '') + HIDDEN,
          )
          for (const secret of secrets) text = text.replaceAll(secret, HIDDEN)
          return text
        },
      },
    },
    destination,
  )
}

/** The fields of an error that help to find its cause, without rows, parameters and requests. */
function describe(error: unknown, causesMax: number): unknown {
  if (!(error instanceof Error)) return { type: typeof error, message: clean(String(error)) }
  const { code, severity, schema, table, column, constraint, routine, syscall } =
    error as unknown as Record<string, unknown>
  const known = { code, severity, schema, table, column, constraint, routine, syscall }
  const texts = Object.entries(known).filter(([, value]) => typeof value === 'string')
  const hasCause = error.cause !== undefined && causesMax > 0
  return {
    type: error.name,
    message: clean(error.message),
    ...Object.fromEntries(texts),
    stack: clean(error.stack ?? ''),
    ...(hasCause && { cause: describe(error.cause, causesMax - 1) }),
  }
}

function clean(text: string): string {
  return text.slice(0, 8_000).replace(IDENTITY_NUMBERS, HIDDEN)
}
