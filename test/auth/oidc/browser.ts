/** A browser without pages: it keeps cookies for each origin, and follows redirects. */
export interface Browser {
  readonly cookies: Map<string, Map<string, string>>
  /** Opens a URL. @returns the last response, and where it came from */
  open(url: string, stopAt?: RegExp): Promise<{ readonly url: string; readonly response: Response }>
}

const REDIRECTS_MAX = 10

export function createBrowser(): Browser {
  const cookies: Browser['cookies'] = new Map()
  const visit = async (url: string): Promise<Response> => {
    const { origin } = new URL(url)
    const own = cookies.get(origin) ?? new Map<string, string>()
    cookies.set(origin, own)
    const cookie = [...own].map(([name, value]) => `${name}=${value}`).join('; ')
    const response = await fetch(url, { redirect: 'manual', headers: { cookie } })
    for (const header of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(header) ?? []
      if (value === '') own.delete(name)
      else own.set(name, value)
    }
    return response
  }
  return {
    cookies,
    async open(first, stopAt) {
      let url = first
      for (let count = 0; count < REDIRECTS_MAX; count++) {
        const response = await visit(url)
        const location = response.headers.get('location')
        if (location === null) return { url, response }
        url = new URL(location, url).href
        if (stopAt?.test(url)) return { url, response }
      }
      throw new Error(`too many redirects: ${url}`)
    },
  }
}
