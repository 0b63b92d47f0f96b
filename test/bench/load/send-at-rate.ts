/** Sends at an even rate. A late turn of the event loop sends what it has missed. */
export async function sendAtRate(
  count: number,
  perSecond: number,
  send: () => void,
): Promise<void> {
  const started = performance.now()
  for (let sent = 0; sent < count; ) {
    const due = Math.min(count, Math.floor(((performance.now() - started) / 1000) * perSecond))
    for (; sent < due; sent++) send()
    await nextTurn()
  }
}

export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 1))
}
