// biome-ignore-all lint/suspicious/noTemplateCurlyInString: the texts are source code
import { inFile } from './mutation.ts'

const RELAY = 'test/relay/relay.test.ts'
const SINK = 'test/relay/jetstream-sink.test.ts'

const sink = inFile('src/relay/jetstream/jetstream-sink.ts', SINK, RELAY)
const config = inFile('src/relay/jetstream/stream-config.ts', RELAY)
const find = inFile('src/relay/find-stream.ts', 'test/relay/find-stream.test.ts', RELAY)
const relay = inFile('src/relay/relay.ts', 'test/relay/take-over.test.ts', RELAY)
const message = inFile('src/relay/message.ts', 'test/relay/message.test.ts', RELAY)

export const RELAYING = [
  sink(
    'an event is published at another place than its own',
    'expect: { lastSequence, streamName: stream.name }',
    'expect: { streamName: stream.name }',
  ),
  sink(
    'an instance that missed the end of a stream publishes into the next one',
    'expect: { lastSequence, streamName: stream.name }',
    'expect: { lastSequence }',
  ),
  sink(
    'an event that another instance published counts as published here',
    'if (duplicate) throw',
    'if (false) throw',
  ),
  sink(
    'a stream that is replaced goes on to take events',
    'streams.update(name, { subjects: endedSubjects(name) })',
    'streams.update(name, {})',
  ),
  sink(
    'a stream follows the first ended one again',
    'names.sort((a, b) => numberOf(b) - numberOf(a))',
    'names.sort((a, b) => numberOf(a) - numberOf(b))',
  ),
  sink(
    'a stream whose messages have expired begins again',
    'Math.max(info.state.last_seq, stored?.seq ?? 0)',
    'stored?.seq ?? 0',
  ),
  config(
    'events of test mode have the subject of live mode',
    '`inflow.events.${mode}.',
    '`inflow.events.live.',
  ),
  config('messages can be purged', 'deny_purge: true', 'deny_purge: false'),
  find(
    'a stream that lacks its last messages goes on',
    '(await placeAfter(pool, latest, state)) === latest.end',
    '(await placeAfter(pool, latest, state)) <= latest.end',
  ),
  find(
    'an older copy of the database replaces the stream',
    'latest.epoch > state.epoch) throw',
    'latest.epoch > state.epoch + 1) throw',
  ),
  find(
    'a log that contradicts the stream is published',
    "if (epoch === state.epoch && error.reason !== 'expired_cursor') {",
    'if (false) {',
  ),
  find(
    'a new stream repeats an event that was published just before the end of the last one',
    ': await placeAfter(pool, ended, state)',
    ': await placeAfter(pool, latest as MirrorStream, state)',
  ),
  find(
    'a new epoch repeats what the streams share',
    'safe === undefined ? state.floor',
    "safe !== '' ? state.floor",
  ),
  relay(
    'events of a new epoch are published into the stream of the one before',
    'if (epoch !== stream.epoch || entries[0]?.position !== from) {',
    'if (entries[0]?.position !== from) {',
  ),
  relay(
    'no instance takes over when the one that publishes stops',
    'this.isFollowing = entries.length === 0 || stream.end !== this.end',
    'this.isFollowing = true',
  ),
  message(
    'another event at the place of the last message is not noticed',
    'const cursor = encodeCursor({ epoch, position, tag: tagOf(id) })',
    "const cursor = encodeCursor({ epoch, position, tag: '' })",
  ),
]
