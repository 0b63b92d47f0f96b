/** One request to a bank. */
export interface BankRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** Below the bank's base URL, without a leading slash; with its query. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  /** As it is sent; the caller sets its content type. */
  readonly body?: string
  readonly signal: AbortSignal
}

/** What a bank answered; whatever the status, it is no error. */
export interface BankAnswer {
  readonly status: number
  /** At most 1 MiB. */
  readonly text: string
}

/** There was no answer. */
export class BankUnreachable extends Error {
  override readonly name = 'BankUnreachable'
  /** Whether the bank may have got the request. */
  readonly sent: boolean

  constructor(text: string, sent: boolean, cause?: unknown) {
    super(text, { cause })
    this.sent = sent
  }
}

/** The bank answers, and does not list the payments of an account: it may list others'. */
export class NotListed extends Error {
  override readonly name = 'NotListed'
}

/** Sends requests to one bank, within its limits of time and of requests at once. */
export interface BankHttp {
  /** @throws BankUnreachable */
  send(request: BankRequest): Promise<BankAnswer>
}
