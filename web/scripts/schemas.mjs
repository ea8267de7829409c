// What the types of the interface and those of sdk/typescript have in common.

/** A schema that names another one and adds members to it is an intersection of both. */
export function asIntersection(value) {
  if (Array.isArray(value)) return value.map(asIntersection);
  if (value === null || typeof value !== 'object') return value;
  const entries = Object.entries(value).map(([key, member]) => [key, asIntersection(member)]);
  const schema = Object.fromEntries(entries);
  if (typeof schema.$ref === 'string' && schema.properties) {
    const { $ref, description, ...rest } = schema;
    return { description, allOf: [{ $ref }, rest] };
  }
  return schema;
}
