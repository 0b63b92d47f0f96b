/** Sends evenly: what a turn of the event loop came too late for, it makes up. */
export async function pace(count: number, perSecond: number, send: () => void): Promise<void> {
  const started = performance.now()
  for (let sent = 0; sent < count; ) {
    const due = Math.min(count, Math.floor(((performance.now() - started) / 1000) * perSecond))
    for (; sent < due; sent++) send()
    await turn()
  }
}

export function turn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 1))
}
