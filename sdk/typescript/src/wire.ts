// Names of the service (`exit_code`) and of TypeScript (`exitCode`). Only names of the schemas change: those that a user
// or a program chose, as in metadata or arguments, stay.
import { SHAPES } from './generated/shapes.js';

const camel = (name: string) => name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
const snake = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

type Fields = Record<string, unknown>;

function convert(value: unknown, schema: string | undefined, isRequest: boolean): unknown {
  if (schema === undefined || value === null || typeof value !== 'object') return value;
  if (Array.isArray(value)) return value.map((one) => convert(one, schema, isRequest));
  const fields = value as Fields;
  if (schema.startsWith('*')) {
    const members = Object.entries(fields).map(([name, member]) => [name, convert(member, schema.slice(1), isRequest)]);
    return Object.fromEntries(members);
  }
  const shape = SHAPES[`${schema}.${String(fields['type'] ?? fields['kind'])}`] ?? SHAPES[schema];
  const members = Object.entries(fields).map(([name, member]) => {
    const wire = isRequest ? snake(name) : name;
    const inner = shape !== undefined && Object.hasOwn(shape, wire) ? shape[wire] : undefined;
    return [isRequest ? wire : camel(name), convert(member, inner, isRequest)];
  });
  return Object.fromEntries(members);
}

/** A response with the names of TypeScript. */
export const fromWire = (value: unknown, schema: string): unknown => convert(value, schema, false);

/** A request with the names of the service. */
export const toWire = (value: unknown, schema: string): unknown => convert(value, schema, true);
