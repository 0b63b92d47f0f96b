import { CODE, ConnectionError } from './protocol.ts'

/**
 * How many bits each octet takes, and the end of a string last (RFC 7541, appendix B). Codes of one
 * length are numbered in the order of their octets, so that the lengths say it all.
 */
export const HUFFMAN_BITS: readonly number[] = [
  '13 23 28 28 28 28 28 28 28 24 30 28 28 30 28 28 28 28 28 28 28 28 30 28 28 28 28 28 28 28 28 28',
  '6 10 10 12 13 6 8 11 10 10 8 11 8 6 6 6 5 5 5 6 6 6 6 6 6 6 7 8 15 6 12 10',
  '13 6 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 7 8 7 8 13 19 13 14 6',
  '15 5 6 5 6 5 6 6 6 5 7 7 6 6 6 5 6 7 6 5 5 6 7 7 7 7 7 15 11 14 13 28',
  '20 22 20 20 22 22 22 23 22 23 23 23 23 23 24 23 24 24 22 23 24 23 23 23 23 21 22 23 22 23 23 24',
  '22 21 20 22 22 23 23 21 23 22 22 24 21 22 23 23 21 21 22 21 23 22 23 23 20 22 22 22 23 22 22 23',
  '26 26 20 19 22 23 22 25 26 26 26 27 27 26 24 25 19 21 26 27 27 26 27 24 21 21 26 26 28 27 27 27',
  '20 24 20 21 22 21 21 23 22 22 25 25 24 24 26 23 26 27 26 26 27 27 27 27 27 28 27 27 27 27 27 26',
  '30',
].flatMap((row) => row.split(' ').map(Number))

const END = 256

/** The code of each. */
const CODES = assignCodes()

function assignCodes(): Uint32Array {
  const codes = new Uint32Array(HUFFMAN_BITS.length)
  const order = [...HUFFMAN_BITS.keys()].sort((a, b) => bitsOf(a) - bitsOf(b) || a - b)
  let code = 0
  let length = 0
  for (const symbol of order) {
    code <<= bitsOf(symbol) - length
    length = bitsOf(symbol)
    codes[symbol] = code
    code += 1
  }
  return codes
}

function bitsOf(symbol: number): number {
  return HUFFMAN_BITS[symbol] as number
}

/** The error among the transitions. */
const BROKEN = -1

/** Inner nodes of the tree of codes: each is a state in which some bits of a code have come. */
const TREE = growTree()

/** For each state and the next four bits: the state after them, and above it the octet that ended. */
const STEPS = tabulate()

/** Whether a string may end in a state: with less than an octet of ones (section 5.2). */
const MAY_END = findEnds()

function growTree(): Int32Array[] {
  const nodes = [new Int32Array(2)]
  for (const [symbol, code] of CODES.entries()) {
    let at = 0
    for (let bit = bitsOf(symbol) - 1; bit > 0; bit--) {
      const node = nodes[at] as Int32Array
      const side = (code >>> bit) & 1
      if (node[side] === 0) node[side] = nodes.push(new Int32Array(2)) - 1
      at = node[side] as number
    }
    // Leaves are negative, so that they differ from nodes.
    ;(nodes[at] as Int32Array)[code & 1] = -1 - symbol
  }
  return nodes
}

function tabulate(): Int32Array {
  const steps = new Int32Array(TREE.length * 16)
  for (let state = 0; state < TREE.length; state++) {
    for (let nibble = 0; nibble < 16; nibble++) steps[state * 16 + nibble] = step(state, nibble)
  }
  return steps
}

/** No code has fewer than five bits, so that at most one ends in four. */
function step(from: number, nibble: number): number {
  let at = from
  let octet = 0
  for (let bit = 3; bit >= 0; bit--) {
    const next = (TREE[at] as Int32Array)[(nibble >>> bit) & 1] as number
    if (next === -1 - END) return BROKEN
    if (next < 0) octet = -next
    at = next < 0 ? 0 : next
  }
  return (octet << 16) | at
}

function findEnds(): Uint8Array {
  const ends = new Uint8Array(TREE.length)
  let at = 0
  for (let ones = 0; ones < 8; ones++) {
    ends[at] = 1
    at = (TREE[at] as Int32Array)[1] as number
  }
  return ends
}

/** Where a string is put together, which is never longer than a block of headers allows. */
let workspace = Buffer.allocUnsafeSlow(1_024)

/** @throws ConnectionError COMPRESSION_ERROR */
export function readHuffman(bytes: Buffer, start: number, end: number): string {
  // Codes have at least five bits.
  const most = Math.ceil(((end - start) * 8) / 5)
  if (most > workspace.length) workspace = Buffer.allocUnsafeSlow(most * 2)
  const output = workspace
  let length = 0
  let state = 0
  for (let at = start; at < end; at++) {
    const octet = bytes[at] as number
    const high = STEPS[state * 16 + (octet >>> 4)] as number
    if (high > 0xffff) output[length++] = (high >>> 16) - 1
    const low = high === BROKEN ? BROKEN : (STEPS[(high & 0xffff) * 16 + (octet & 15)] as number)
    if (low === BROKEN) throw broken()
    if (low > 0xffff) output[length++] = (low >>> 16) - 1
    state = low & 0xffff
  }
  if (MAY_END[state] !== 1) throw broken()
  return output.toString('latin1', 0, length)
}

function broken(): ConnectionError {
  return new ConnectionError(CODE.compressionError, 'a text is not in the code of Huffman')
}
