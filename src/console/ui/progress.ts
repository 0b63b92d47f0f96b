import type { DescService } from '@bufbuild/protobuf'
import { type CallOptions, type Client, createClient } from '@connectrpc/connect'
import { useTransport } from '@connectrpc/connect-query'
import { useEffect, useRef, useState } from 'react'

/** The progress of work of the service, which a stream reports. The viewer or an error can stop it. */
interface Progress<At> {
  readonly state: 'idle' | 'running' | 'stopped' | 'done'
  readonly at: At
  readonly error?: unknown
}

/**
 * Reads a stream until it ends, fails or is stopped, at the latest when the component is removed.
 *
 * @param idle the state before the first message
 * @param open opens the stream, which continues after the current state
 * @param add adds a message to the state; `from` is the state at the beginning of the stream
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
    // A stopped stream must not change the state of a later stream.
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
