import { create, toBinary } from '@bufbuild/protobuf'
import {
  EventService,
  SubscribeRequestSchema,
} from '../../../gen/inflow/event/v1/event_service_pb.ts'
import { childProcessMain } from '../child-process-main.ts'
import { openStreams } from './streams.ts'

/** Subscribers that concurrently read the log from its beginning. */
export interface FanoutLoadOptions {
  readonly address: string
  readonly token: string
  readonly subscribers: number
  /** How many messages each subscriber must receive. */
  readonly messages: number
}

/** The result of a round. */
export interface FanoutResult {
  readonly messagesPerSecond: number
}

childProcessMain<FanoutLoadOptions, undefined, undefined, FanoutResult>(async (options) => {
  const request = create(SubscribeRequestSchema, { start: { case: 'beginning', value: true } })
  const path = `/${EventService.typeName}/${EventService.method.subscribe.name}`
  const { address, token, subscribers, messages } = options
  const round = async (): Promise<FanoutResult> => {
    const source = openStreams({
      address,
      path,
      token,
      request: toBinary(SubscribeRequestSchema, request),
      connections: 4,
    })
    const started = performance.now()
    const read = () =>
      new Promise<void>((resolve, reject) => {
        let left = messages
        const stream = source.open(
          () => {
            left -= 1
            if (left > 0) return
            stream.cancel()
            resolve()
          },
          (failure) =>
            reject(new Error(failure ?? `the stream ended with ${left} messages missing`)),
        )
      })
    await Promise.all(Array.from({ length: subscribers }, read))
    const seconds = (performance.now() - started) / 1000
    source.close()
    return { messagesPerSecond: (subscribers * messages) / seconds }
  }
  return { ready: undefined, run: round }
})
