import type { DescService } from '@bufbuild/protobuf'
import { type CallOptions, type Client, createClient } from '@connectrpc/connect'
import { useTransport } from '@connectrpc/connect-query'
import { useEffect, useRef, useState } from 'react'

/** Work of the service that a stream reports, as far as it is; it stops by the viewer or by an error. */
interface Progress<At> {
  readonly state: 'idle' | 'running' | 'stopped' | 'done'
  readonly at: At
  readonly error?: unknown
}

/**
 * Follows a stream until it ends, fails or is stopped, at the latest with the component.
 *
 * @param idle what is known before the first message
 * @param open begins the stream, after what is known already
 * @param add adds a message to what is known; `from` is where its stream began
 */
export function useProgress<S extends DescService, At, Message>(
  service: S,
  idle: At,
  open: (client: Client<S>, from: At, options: CallOptions) => AsyncIterable<Message>,
  add: (at: At, message: Message, from: At) => At,
) {
  const [progress, setProgress] = useState<Progress<At>>({ state: 'idle', at: idle })
  const transport = useTransport()
  const ended = useRef(new AbortController())
  useEffect(() => () => ended.current.abort(), [])
  const run = async (from: At): Promise<void> => {
    ended.current = new AbortController()
    const { signal } = ended.current
    // What was given up changes nothing of what was begun after it.
    const isCurrent = () => ended.current.signal === signal
    let at = from
    setProgress({ state: 'running', at })
    try {
      const stream = open(createClient(service, transport), from, { signal, timeoutMs: 0 })
      for await (const message of stream) {
        if (!isCurrent()) return
        at = add(at, message, from)
        setProgress({ state: 'running', at })
      }
      if (isCurrent()) setProgress({ state: 'done', at })
    } catch (error) {
      if (!isCurrent()) return
      setProgress({ state: 'stopped', at, ...(!signal.aborted && { error }) })
    }
  }
  return {
    ...progress,
    start: (from: At = idle) => void run(from),
    resume: () => void run(progress.at),
    stop: () => ended.current.abort(),
    reset: () => {
      ended.current.abort()
      ended.current = new AbortController()
      setProgress({ state: 'idle', at: idle })
    },
  }
}
