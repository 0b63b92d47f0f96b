import { type BankHttp, BankUnreachable } from '../../src/banks/bank-http.ts'

const NOT_SENT = ['ECONNREFUSED', 'ENOTFOUND', 'UND_ERR_CONNECT_TIMEOUT']

/** Requests to a bank without a pool and limits; each has `timeoutMs`. */
export function plainBankHttp(baseUrl: string, timeoutMs = 5_000): BankHttp {
  return {
    async send({ method, path, headers, body, signal }) {
      if (signal.aborted) throw new BankUnreachable('given up', false)
      const limited = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
      const request = { method, headers, signal: limited, ...(body !== undefined && { body }) }
      try {
        const response = await fetch(`${baseUrl}/${path}`, request)
        return { status: response.status, text: await response.text() }
      } catch (error) {
        const { code } = ((error as Error).cause ?? {}) as { code?: string }
        throw new BankUnreachable(String(error), !NOT_SENT.includes(code ?? ''), error)
      }
    },
  }
}
