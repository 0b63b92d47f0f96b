import { expect, test } from 'vitest'
import { readQuery } from '../../src/overview/search.ts'

const UNIQUE = '01m83cw9qnqv8d4h0yt9a4hsdz'

test('recognises what a text may be by its shape', () => {
  expect(readQuery(` txn_${UNIQUE} `)).toEqual({
    ...{ text: `txn_${UNIQUE}`, prefix: 'txn', isForeignId: false, isName: false, isPart: false },
    credential: undefined,
  })
  expect(readQuery('ada@example.com')).toMatchObject({ isForeignId: false, isName: false })
  expect(readQuery('0123456789')).toMatchObject({
    prefix: undefined,
    isForeignId: true,
    isName: true,
  })
  expect(readQuery('   ')).toMatchObject({ text: '', isName: false })
})

test('reads the range of ids from an id, a secret or the prefix of a secret, and not the secret itself', () => {
  const whole = (kind: string) => ({ first: `${kind}_${UNIQUE}`, last: `${kind}_${UNIQUE}` })
  for (const text of [`tok_${UNIQUE}`, `it_${UNIQUE}_${'A'.repeat(43)}`]) {
    expect(readQuery(text).credential).toEqual({ kind: 'tok', ...whole('tok') })
  }
  for (const text of [
    `key_${UNIQUE}`,
    `sk_live_${UNIQUE}_${'A'.repeat(43)}`,
    `sk_test_${UNIQUE}`,
  ]) {
    expect(readQuery(text).credential).toEqual({ kind: 'key', ...whole('key') })
  }
  expect(readQuery('it_01m83cw9qn').credential).toEqual({
    ...{
      kind: 'tok',
      first: `tok_01m83cw9qn${'0'.repeat(16)}`,
      last: `tok_01m83cw9qn${'z'.repeat(16)}`,
    },
  })
  for (const text of ['it_01m83cw9q', 'sk_other_01m83cw9qn', `tok_${UNIQUE}x`]) {
    expect(readQuery(text).credential).toBeUndefined()
  }
})
