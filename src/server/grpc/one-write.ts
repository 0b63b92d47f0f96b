import { ServerInterceptingCall, type ServerInterceptor } from '@grpc/grpc-js'

/**
 * Sends the message of a unary answer and its status in one write. By itself grpc-js waits until
 * the message has left the process before it passes the status on: a second write, a turn of the
 * event loop later, for each call.
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
