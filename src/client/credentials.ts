import { isIP } from 'node:net'
import { checkServerIdentity, type PeerCertificate } from 'node:tls'
import { type ChannelCredentials, credentials } from '@grpc/grpc-js'

/** How to speak TLS. All in PEM. */
export interface ClientTls {
  /** The authority to trust; absent: those that Node trusts. */
  readonly ca?: Buffer | string | undefined
  /** A certificate to show, where the service asks for one, and its key. */
  readonly cert?: Buffer | string | undefined
  readonly key?: Buffer | string | undefined
}

/** What a channel of grpc-js takes. */
export interface ChannelSecurity {
  readonly credentials: ChannelCredentials
  readonly options: Readonly<Record<string, string>>
}

/**
 * The name that TLS is told where there is only an address, as TLS names no addresses (RFC 6066,
 * section 3). grpc-js 1.14 would send the address, which Node 26 refuses.
 */
const NO_NAME = 'service.invalid'

/** @param address `host:port`; the certificate has to be for this host, whether a name or an IP */
export function secure(address: string, { ca, cert, key }: ClientTls): ChannelSecurity {
  const host = address.replace(/:\d+$/, '').replace(/^\[|\]$/g, '')
  const named = isIP(host) === 0
  return {
    credentials: credentials.createSsl(toBuffer(ca), toBuffer(key), toBuffer(cert), {
      checkServerIdentity: (_name: string, certificate: PeerCertificate) =>
        checkServerIdentity(host, certificate),
    }),
    options: named ? {} : { 'grpc.ssl_target_name_override': NO_NAME },
  }
}

function toBuffer(pem: Buffer | string | undefined): Buffer | null {
  return pem === undefined ? null : Buffer.from(pem)
}
