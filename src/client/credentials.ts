import { isIP } from 'node:net'
import { checkServerIdentity, type PeerCertificate } from 'node:tls'
import { type ChannelCredentials, credentials } from '@grpc/grpc-js'

/** TLS settings, in PEM. */
export interface ClientTls {
  /** The certificate authority to trust; absent: the ones that Node trusts. */
  readonly ca?: Buffer | string | undefined
  /** The client certificate, if the service requires one, and its key. */
  readonly cert?: Buffer | string | undefined
  readonly key?: Buffer | string | undefined
}

/** The security settings of a grpc-js channel. */
export interface ChannelSecurity {
  readonly credentials: ChannelCredentials
  readonly options: Readonly<Record<string, string>>
}

/**
 * The server name (SNI) for a host that is an IP address, since SNI does not allow IP addresses
 * (RFC 6066, section 3). grpc-js 1.14 would send the address, which Node 26 rejects.
 */
const PLACEHOLDER_SERVER_NAME = 'service.invalid'

/** @param address `host:port`; the certificate must be for this host, whether a name or an IP */
export function secure(address: string, { ca, cert, key }: ClientTls): ChannelSecurity {
  const host = address.replace(/:\d+$/, '').replace(/^\[|\]$/g, '')
  const named = isIP(host) === 0
  return {
    credentials: credentials.createSsl(toBuffer(ca), toBuffer(key), toBuffer(cert), {
      checkServerIdentity: (_name: string, certificate: PeerCertificate) =>
        checkServerIdentity(host, certificate),
    }),
    options: named ? {} : { 'grpc.ssl_target_name_override': PLACEHOLDER_SERVER_NAME },
  }
}

function toBuffer(pem: Buffer | string | undefined): Buffer | null {
  return pem === undefined ? null : Buffer.from(pem)
}
