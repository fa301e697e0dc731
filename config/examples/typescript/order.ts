import {inStock} from 'shop';

type Line = {fruit: string; count: number};

export default async function order(lines: Line[]): Promise<string[]> {
  const missing: string[] = [];
  for (const {fruit, count} of lines) {
    if ((await inStock(fruit)) < count) missing.push(fruit);
  }
  console.log(`${lines.length} lines looked at`);
  return missing;
}
