import { promisify } from 'node:util'
import { gunzip, inflate } from 'node:zlib'
import { Fault } from '../errors.ts'
import { MESSAGE_BYTES_MAX } from './grpc-messages.ts'
import { type GrpcStatus, RPC_STATUS } from './grpc-status.ts'

const EXPAND = { gzip: promisify(gunzip), deflate: promisify(inflate) } as const

/** The flag of a message that is compressed. */
const COMPRESSED = 1

/** How a call ends at once when its messages are in a form that we do not know. */
export function messageFault(flag: number, encoding = 'identity'): GrpcStatus | undefined {
  if (flag !== COMPRESSED || encoding === 'identity' || isKnown(encoding)) return undefined
  return RPC_STATUS.unknownEncoding(encoding)
}

/** @throws Fault when the bytes are not what they say, or come to more than a message may have */
export async function readCompressed(
  flag: number,
  encoding: string | undefined,
  bytes: Buffer,
): Promise<Buffer> {
  if (flag !== COMPRESSED || !isKnown(encoding)) {
    throw new Fault('malformed_request', 'The message does not say how it is compressed')
  }
  try {
    return await EXPAND[encoding](bytes, { maxOutputLength: MESSAGE_BYTES_MAX })
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') {
      const text = `The message decompresses to more than ${MESSAGE_BYTES_MAX} bytes`
      throw new Fault('payload_too_large', text, { cause })
    }
    throw new Fault('malformed_request', `The message is not compressed with ${encoding}`, {
      cause,
    })
  }
}

function isKnown(encoding: string | undefined): encoding is keyof typeof EXPAND {
  return encoding === 'gzip' || encoding === 'deflate'
}
