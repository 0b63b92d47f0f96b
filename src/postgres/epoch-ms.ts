/** SQL that converts a timestamp to milliseconds since the Unix epoch, which pg reads as a number. */
export function epochMs(column: string): string {
  return `round(date_part('epoch', ${column}) * 1000)`
}
