import type { ServiceProcess } from './service-process.ts'

/** Reads `/metrics`. @returns the sum of a metric over all labels, by name */
export async function readMetrics({
  httpUrl,
}: Pick<ServiceProcess, 'httpUrl'>): Promise<(name: string) => number> {
  const response = await fetch(`${httpUrl}/metrics`)
  if (!response.ok) throw new Error(`/metrics: ${response.status}`)
  const sums = new Map<string, number>()
  for (const line of (await response.text()).split('\n')) {
    const [, name, value] = /^(\w+)(?:\{.*\})? (\S+)/.exec(line) ?? []
    if (name !== undefined) sums.set(name, (sums.get(name) ?? 0) + Number(value))
  }
  return (name) => {
    const sum = sums.get(name)
    if (sum === undefined) throw new Error(`/metrics has no ${name}`)
    return sum
  }
}

/** The memory of the process in MiB: resident, V8's used and total heap, and buffers. */
export async function readMemory(service: Pick<ServiceProcess, 'httpUrl'>) {
  const metric = await readMetrics(service)
  const mib = (name: string) => metric(name) / 2 ** 20
  return {
    residentMib: mib('process_resident_memory_bytes'),
    heapMib: mib('nodejs_heap_size_used_bytes'),
    heapTotalMib: mib('nodejs_heap_size_total_bytes'),
    externalMib: mib('nodejs_external_memory_bytes'),
  }
}
