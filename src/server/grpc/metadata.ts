import { decodeBinaryHeader, encodeBinaryHeader } from '@connectrpc/connect'
import { Metadata } from '@grpc/grpc-js'
import { REQUEST_ID } from './status.ts'

/** Returns the metadata of a request as headers; binary values in base64, as in Connect. */
export function toHeaders(metadata: Metadata): Headers {
  const headers = new Headers()
  for (const [key, values] of Object.entries(metadata.toJSON())) {
    for (const value of values) {
      headers.append(key, typeof value === 'string' ? value : encodeBinaryHeader(value))
    }
  }
  return headers
}

/** Returns the metadata of a response: its headers and the request id. */
export function toMetadata(headers: Headers | undefined, requestId: string): Metadata {
  const metadata = new Metadata()
  headers?.forEach((value, name) => {
    if (!name.endsWith('-bin')) metadata.set(name, value)
    // Headers join values with a comma, which base64 does not contain.
    else for (const each of value.split(',')) metadata.add(name, toBytes(each))
  })
  metadata.set(REQUEST_ID, requestId)
  return metadata
}

function toBytes(base64: string): Buffer {
  return Buffer.from(decodeBinaryHeader(base64.trim()))
}
