import { readFileSync } from 'node:fs'
import { EXIT, Failure } from './failure.ts'

/** What a connection over TLS needs beside what the machine trusts anyway. */
export interface CredentialCache {
  /** In PEM: the authority of the service's certificate. */
  readonly ca?: Buffer
  /** In PEM: a certificate to show, and its key. */
  readonly cert?: Buffer
  readonly key?: Buffer
}

/**
 * Reads the files that INFLOW_CA, INFLOW_CERT and INFLOW_KEY name.
 *
 * @throws Failure naming the one that cannot be used
 */
export function readTrust(env: NodeJS.ProcessEnv): CredentialCache {
  const read = (name: string): Buffer | undefined => {
    const path = env[name]?.trim()
    if (!path) return undefined
    try {
      return readFileSync(path)
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code
      throw new Failure(EXIT.usage, `${name} is a file that cannot be read (${code}): ${path}`)
    }
  }
  const [ca, cert, key] = [read('INFLOW_CA'), read('INFLOW_CERT'), read('INFLOW_KEY')]
  if ((cert === undefined) !== (key === undefined)) {
    throw new Failure(EXIT.usage, 'INFLOW_CERT and INFLOW_KEY go together: set both, or neither')
  }
  return { ...(ca && { ca }), ...(cert && key && { cert, key }) }
}
