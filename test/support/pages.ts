/** All items of a list, page by page. */
export async function pages<Item>(
  read: (token: string) => Promise<{ items: readonly Item[]; next: string }>,
): Promise<Item[]> {
  const all: Item[] = []
  for (let token = ''; ; ) {
    const { items, next } = await read(token)
    all.push(...items)
    if (next === '') return all
    token = next
  }
}
