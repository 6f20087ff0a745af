/** Documents of GraphQL, read by the parser of its reference implementation. */
import type { GraphqlKind } from '@space/core';
import { Kind, parse } from 'graphql';

const MAX_TOKENS = 10_000;

/** The kinds of all operations in it; null: it is none, or more than anybody needs to ask. */
export function kindsOfDocument(document: string): readonly GraphqlKind[] | null {
  try {
    const { definitions } = parse(document, { noLocation: true, maxTokens: MAX_TOKENS });
    const kinds: GraphqlKind[] = [];
    for (const definition of definitions) {
      if (definition.kind === Kind.OPERATION_DEFINITION) kinds.push(definition.operation);
      else if (definition.kind !== Kind.FRAGMENT_DEFINITION) return null;
    }
    return kinds;
  } catch {
    // Also where it is so deep that the parser runs out of its stack.
    return null;
  }
}
