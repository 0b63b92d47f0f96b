import { errors } from 'undici'
import { expect, test } from 'vitest'
import { CertificateError, RefusedError } from '../../../src/webhooks/sender/connect.ts'
import { failureText, NoResponseError } from '../../../src/webhooks/sender/failure-text.ts'

const coded = (code: unknown) => Object.assign(new Error('internal'), { code })

test.each<[string, unknown, string]>([
  [
    'no response in time',
    new NoResponseError('no response within 15 s'),
    'no response within 15 s',
  ],
  ['a refused address', new RefusedError('a private address'), 'a private address'],
  ['a bad certificate', new CertificateError('it has expired'), 'it has expired'],
  ['another protocol', new errors.HTTPParserError('x'), 'the response is not HTTP'],
  ['a known code', coded('ECONNREFUSED'), 'connection refused'],
  [
    'a known code of the cause',
    new Error('x', { cause: coded('ENOTFOUND') }),
    'host name not found',
  ],
  ['any failure of TLS', coded('ERR_SSL_WRONG_VERSION_NUMBER'), 'TLS handshake failed'],
  ['an unknown code', coded('E_ODD'), 'the request failed (E_ODD)'],
  ['an unknown code that names TLS later', coded('X_ERR_SSL_'), 'the request failed (X_ERR_SSL_)'],
  ['a code that is no text', coded(7), 'the request failed'],
  ['no code', new Error('internal'), 'the request failed'],
  ['no error', { code: 'ECONNREFUSED' }, 'the request failed'],
  ['nothing', undefined, 'the request failed'],
])('the failure of %s is shown without what is internal', (_what, error, text) => {
  expect(failureText(error)).toBe(text)
})
