import { ServerInterceptingCall, type ServerInterceptor } from '@grpc/grpc-js'

/**
 * Sends the message and the status of a unary response in one write. Without it, grpc-js sends the
 * status only after the message has left the process: a second write, one turn of the event loop
 * later.
 */
export const oneWrite: ServerInterceptor = (method, call) =>
  method.requestStream || method.responseStream
    ? (call as ServerInterceptingCall)
    : new OneWriteCall(call)

class OneWriteCall extends ServerInterceptingCall {
  override sendMessage(message: unknown, sent: () => void): void {
    super.sendMessage(message, () => undefined)
    sent()
  }
}
