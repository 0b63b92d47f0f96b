import pino, { type DestinationStream, type Logger } from 'pino'

/** How deep the causes of an error are followed. */
const CAUSES_MAX = 5

/** Fields that never hold anything for a log, wherever they come from: a library's error, say. */
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

/** Everything that opens something: our own credentials, and those in headers, URLs and PEM. */
const CREDENTIALS =
  /\b(sk_(?:live|test)_[0-9a-z]{10})[\w-]+|\b(it_[0-9a-z]{10})[0-9a-z]{16}_[\w-]+|\b(whsec_)[\w+/=-]+|\b(inflow_[a-z]+_)[\w-]{16,}|\b(Bearer +)[^\s"\\]+|(:\/\/[^\s:/@"]*:)[^\s/@"]+(?=@)|(-----BEGIN [A-Z ]*PRIVATE KEY-----)[^"]+?(?=-----END|")/g

/** The form of identity numbers. In the text of an error they are the caller's, not ours. */
const IDENTITY_NUMBERS = /(?<!\d)\d{11}(?!\d)/g

const HIDDEN = '[redacted]'

/**
 * The log: JSON, one line each. What is logged is chosen where it is logged; what is done here is a
 * second net, for errors of libraries that carry more than their text.
 *
 * @param secrets texts that must not appear whatever their form
 */
export function createLog(
  level: string,
  secrets: readonly string[],
  destination: DestinationStream,
): Logger {
  return pino(
    {
      level,
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
              (groups.slice(0, 7).find((shown) => shown !== undefined) ?? '') + HIDDEN,
          )
          for (const secret of secrets) text = text.replaceAll(secret, HIDDEN)
          return text
        },
      },
    },
    destination,
  )
}

/** What helps to find the cause. Not the rows, parameters and requests that errors carry along. */
function describe(error: unknown, causesMax: number): unknown {
  if (!(error instanceof Error)) return { type: typeof error, message: clean(String(error)) }
  const { code, severity, schema, table, column, constraint, routine, syscall } =
    error as unknown as Record<string, unknown>
  const known = { code, severity, schema, table, column, constraint, routine, syscall }
  const texts = Object.entries(known).filter(([, value]) => typeof value === 'string')
  const told = error.cause !== undefined && causesMax > 0
  return {
    type: error.name,
    message: clean(error.message),
    ...Object.fromEntries(texts),
    stack: clean(error.stack ?? ''),
    ...(told && { cause: describe(error.cause, causesMax - 1) }),
  }
}

function clean(text: string): string {
  return text.slice(0, 8_000).replace(IDENTITY_NUMBERS, HIDDEN)
}
