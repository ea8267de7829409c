/** Tags as somebody types them, with commas between; the service sorts them. */
export function readTags(text: string): string[] {
  const tags = text.split(/[,，;\n]/).map((tag) => tag.trim());
  return [...new Set(tags.filter((tag) => tag !== ''))];
}
