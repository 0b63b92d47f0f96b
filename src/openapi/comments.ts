import type { AnyDesc, DescFile } from '@bufbuild/protobuf'
import { getComments, getPackageComments } from '@bufbuild/protoplugin'

/** The comment above an element of the contract, as Markdown: its paragraphs, each on one line. */
export function commentOf(desc: Exclude<AnyDesc, DescFile>): string {
  return toMarkdown(getComments(desc).leading)
}

/** The comment above the package of a file. */
export function packageCommentOf(file: DescFile): string {
  return toMarkdown(getPackageComments(file).leading)
}

/** Lists and code, whose lines begin with a mark or are indented, keep their lines. */
function toMarkdown(comment: string | undefined): string {
  const text = (comment ?? '').replaceAll(/^ /gm, '').trim()
  return text.replaceAll(/(?<=\S)\n(?=[^\s\-|])/g, ' ')
}
