import { EventEmitter } from 'node:events'
import { create } from '@bufbuild/protobuf'
import { EmptySchema } from '@bufbuild/protobuf/wkt'
import { Fault } from '../errors.ts'
import type { GrpcCall } from './grpc-call.ts'
import { frameMessage } from './grpc-messages.ts'
import type { GrpcMethod } from './grpc-method.ts'
import { toGrpcStatus } from './grpc-status.ts'

/** A method as packages for servers of grpc-js define it. */
interface Definition {
  readonly path: string
  readonly originalName?: string
  readonly requestStream: boolean
  readonly responseStream: boolean
  requestDeserialize(bytes: Buffer): unknown
  responseSerialize(message: never): Buffer
}

type Handler = (
  call: PackageCall,
  answer: (failure: { code: number; details: string } | null, message?: unknown) => void,
) => void

/** Messages of one call that wait, because its client does not take the answers. */
const WAITING_MAX = 100

/**
 * The methods of a package that was made for servers of grpc-js: official services, in the little
 * of its interface that they use.
 */
export function packageMethods(definitions: object, handlers: object): GrpcMethod[] {
  const known = handlers as Readonly<Record<string, Handler>>
  const defined = definitions as Readonly<Record<string, Definition>>
  return Object.entries(defined).flatMap(([name, definition]) => {
    const handler = known[name] ?? known[definition.originalName ?? name]
    return handler === undefined ? [] : [toMethod(definition, handler)]
  })
}

function toMethod(definition: Definition, handler: Handler): GrpcMethod {
  const { path, requestStream, responseStream } = definition
  return {
    path,
    requestStream,
    // What messages are is the package's own business.
    decode: () => create(EmptySchema),
    async handle(rpc) {
      const call = new PackageCall(rpc, definition)
      try {
        if (!requestStream) call.request = read(definition, await rpc.readBytes())
        handler(call, (failure, message) => {
          if (failure !== null) rpc.fail({ code: failure.code, text: failure.details })
          else rpc.answer(definition.responseSerialize(message as never), undefined)
        })
        if (responseStream) rpc.respond(undefined)
      } catch (error) {
        rpc.fail(toGrpcStatus(error, rpc.requestId))
      }
    },
  }
}

function read(definition: Definition, bytes: Buffer): unknown {
  try {
    return definition.requestDeserialize(bytes)
  } catch (cause) {
    throw new Fault('malformed_request', 'The message cannot be read', { cause })
  }
}

/** A call as such packages see it. */
class PackageCall extends EventEmitter {
  request: unknown
  readonly #rpc: GrpcCall
  readonly #definition: Definition
  /** Answers that the client has not taken yet hold up its next questions. */
  readonly #waiting: (Buffer | undefined)[] = []
  #held = false

  constructor(rpc: GrpcCall, definition: Definition) {
    super()
    this.#rpc = rpc
    this.#definition = definition
    rpc.onClose = () => this.emit('cancelled')
    if (!definition.requestStream) return
    rpc.onMessage = (message) => this.#came(message)
    rpc.onWritable = () => this.#resume()
  }

  write(message: unknown): void {
    this.#rpc.respond(undefined)
    const bytes = this.#definition.responseSerialize(message as never)
    if (!this.#rpc.write(frameMessage(bytes))) this.#held = true
  }

  end(): void {
    this.#rpc.end()
  }

  #came(message: Buffer | undefined): void {
    if (!this.#held) this.#tell(message)
    else if (this.#waiting.push(message) > WAITING_MAX) this.#rpc.refuse()
  }

  #resume(): void {
    this.#held = false
    while (!this.#held && this.#waiting.length > 0) this.#tell(this.#waiting.shift())
  }

  #tell(message: Buffer | undefined): void {
    if (message === undefined) {
      this.emit('end')
      return
    }
    try {
      this.emit('data', read(this.#definition, message))
    } catch (error) {
      this.#rpc.fail(toGrpcStatus(error, this.#rpc.requestId))
    }
  }
}
