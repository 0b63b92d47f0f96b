import { readFileSync } from 'node:fs'
import { EXIT, Failure } from './failure.ts'

/** TLS options of a connection to the service, beside the CAs that the machine trusts. */
export interface TlsOptions {
  /** The CA certificate of the service, in PEM. */
  readonly ca?: Buffer
  /** A client certificate and its key, in PEM. */
  readonly cert?: Buffer
  readonly key?: Buffer
}

/**
 * Reads the files that INFLOW_CA, INFLOW_CERT and INFLOW_KEY name.
 *
 * @throws Failure naming the variable that is invalid
 */
export function readTlsOptions(env: NodeJS.ProcessEnv): TlsOptions {
  const read = (name: string): Buffer | undefined => {
    const path = env[name]?.trim()
    if (!path) return undefined
    try {
      return readFileSync(path)
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code
      // A key itself, in place of the name of its file, must not get into a log.
      const shown = /^(sk|tok)_|-----BEGIN/.test(path) ? 'its value is a secret, not a path' : path
      throw new Failure(EXIT.usage, `${name} names a file that cannot be read (${code}): ${shown}`)
    }
  }
  const [ca, cert, key] = [read('INFLOW_CA'), read('INFLOW_CERT'), read('INFLOW_KEY')]
  if ((cert === undefined) !== (key === undefined)) {
    throw new Failure(EXIT.usage, 'INFLOW_CERT and INFLOW_KEY must be set together')
  }
  return { ...(ca && { ca }), ...(cert && key && { cert, key }) }
}
