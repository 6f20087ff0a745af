/**
 * The stage of a request in which a secret is placed: just in time, for this one request, and only where it goes to a host that was
 * verified. Whatever happens, no placeholder leaves.
 */
import {
  type AddedSecret,
  AppError,
  type BoundSecret,
  chooseBinding,
  type EgressRequest,
  hasPlaceholder,
  type SecretPlace,
  SecretValue,
  whyNotFor,
} from '@space/core';
import type { AnswerHead, AskedRequest, GivenAnswer, Header } from '../admission.ts';
import type { LoadedRules, Passage } from '../passage.ts';
import { refusedSecret } from '../refusal.ts';
import { checkNoPlaceholder, isCredential, planPlacement } from './place-secret.ts';
import { PlaceholderScreen } from './placeholder-screen.ts';
import { withPlaceholder } from './redirect.ts';
import { formsOf, Scrubber, scrubText } from './scrub.ts';

/** What of an admitted request is a matter of secrets. */
export interface Placed {
  readonly url: string;
  readonly headers: readonly Header[];
  /** The secret that was placed, by name. */
  readonly secret: string | null;
  /** Whether new rules still grant what it was given. */
  readonly isGranted: (rules: LoadedRules) => boolean;
  readonly answer: (head: AnswerHead) => GivenAnswer;
  /** Those that follow the body, as they leave. Throws `egress_refused`. */
  readonly trailers: (trailers: readonly Header[]) => readonly Header[];
  /** Of what comes back after the head: trailers, early heads. */
  readonly scrubbed: (headers: readonly Header[]) => readonly Header[];
}

/** The binding that is for it; null: none is. Throws `egress_refused` where it is known before a secret is fetched that nothing will leave. */
export function planned({ rules }: Passage, asked: AskedRequest): BoundSecret | null {
  const bound = boundFor(rules.secrets, asked);
  if (bound === null) checkNoPlaceholder(asked, whyNotPlaced(rules.secrets, asked));
  else checkElsewhere(planPlacement(asked, bound)(STANDS_IN), bound);
  return bound;
}

/** For a value that is not known yet. */
const STANDS_IN = new SecretValue('x');

function checkElsewhere(placed: Pick<AskedRequest, 'url' | 'headers'>, { binding, place }: BoundSecret): void {
  checkNoPlaceholder(placed, `the binding "${binding}" places its secret elsewhere (${shownPlace(place)})`);
}

/** What a reviewer is told of it. */
export function addedBy({ binding, secret, place }: BoundSecret): AddedSecret {
  return { binding, secret: secret.name, place: shownPlace(place) };
}

/** `approved`: what a reviewer has let leave, by which no other secret does. Throws `egress_refused`, `secret_unavailable`. */
export async function placeSecret(
  passage: Passage,
  asked: AskedRequest,
  approved: { readonly bound: BoundSecret | null } | null,
): Promise<Placed> {
  const { secrets: bindings, organisationId } = passage.rules;
  const { secrets } = passage;
  asked.body.screen(() => new PlaceholderScreen());
  const bound = boundFor(bindings, asked);
  if (approved !== null && !isSameOrNone(approved.bound, bound)) {
    throw refusedSecret('The secret that it would leave with is another one than a reviewer has seen. Send it again.');
  }
  if (bound === null) {
    checkNoPlaceholder(asked, whyNotPlaced(bindings, asked));
    return unplaced(asked);
  }
  const plan = planPlacement(asked, bound);
  const value = await secrets.valueOf(organisationId, bound.secret, asked.signal());
  const isGranted = (rules: LoadedRules): boolean => rules.secrets.some((one) => isSame(one, bound));
  if (!isGranted(passage.rules)) throw refusedSecret(`The binding "${bound.binding}" has been taken away or changed.`);
  const placed = plan(value);
  checkElsewhere(placed, bound);
  const forms = formsOf(value, alsoSentAs(value, bound.place));
  const scrubbed = (headers: readonly Header[]) =>
    headers.map(([name, text]): Header => [scrubText(name, forms), scrubText(text, forms)]);
  return {
    url: placed.url,
    headers: readable(placed.headers, asked.request),
    secret: bound.secret.name,
    isGranted,
    answer: (head) => {
      if (head.status === 401 || head.status === 403) secrets.refused(organisationId, bound.secret);
      checkReadable(head);
      const redirected = { bound, value, target: passage.target };
      const headers = scrubbed(head.headers.map((header) => withPlaceholder(header, redirected)));
      return { status: head.status, headers, through: new Scrubber(forms) };
    },
    trailers: (trailers) => checkedTrailers(trailers, bound),
    scrubbed,
  };
}

function boundFor(bindings: readonly BoundSecret[], { secure, request }: AskedRequest): BoundSecret | null {
  if (!secure) return null;
  const choice = chooseBinding(bindings, request);
  if (choice.kind === 'one') return choice.bound;
  if (choice.kind === 'none') return null;
  throw refusedSecret(
    `More than one binding is for this request: ${choice.names.join(', ')}. Nobody can say which is meant.`,
  );
}

function whyNotPlaced(bindings: readonly BoundSecret[], { secure, request, url, headers }: AskedRequest): string {
  const named = bindings.find(({ placeholder }) => [url, ...headers.flat()].some((text) => text.includes(placeholder)));
  if (named === undefined) return 'none that the sandbox may use is for this request';
  if (!secure) return `the secret of the binding "${named.binding}" is not placed in clear text: use https`;
  return `the binding "${named.binding}" is ${whyNotFor(named, request) ?? 'for it no more'}`;
}

function unplaced({ url, headers }: AskedRequest): Placed {
  return {
    url,
    headers,
    secret: null,
    isGranted: () => true,
    answer: (head) => ({ ...head, through: null }),
    trailers: (trailers) => checkedTrailers(trailers, null),
    scrubbed: (given) => given,
  };
}

function checkedTrailers(trailers: readonly Header[], bound: BoundSecret | null): readonly Header[] {
  for (const [name, value] of trailers) {
    if (hasPlaceholder(name) || hasPlaceholder(value))
      throw refusedSecret('A trailer of the request holds the placeholder of a secret.');
    if (bound !== null && isCredential(name, bound)) throw refusedSecret('A trailer of the request is a credential.');
  }
  return trailers;
}

/** Headers by which a program asks for an answer in which nobody would see the secret. */
const ASK_FOR_CODED: readonly string[] = [
  'accept-encoding',
  'accept-charset',
  'a-im',
  'grpc-accept-encoding',
  'connect-accept-encoding',
  'sec-websocket-extensions',
  'te',
];
/** Headers by which a host says that its answer, or each message of it, is one. */
const SAY_CODED: readonly string[] = ['content-encoding', 'grpc-encoding', 'connect-content-encoding', 'im'];

/** What comes back is looked through, so it must come as it is. */
function readable(headers: readonly Header[], request: EgressRequest): readonly Header[] {
  const kept = headers.filter(([name, value]) => {
    const plain = name.toLowerCase().replaceAll('_', '-');
    return !ASK_FOR_CODED.includes(plain) || (plain === 'te' && value.trim().toLowerCase() === 'trailers');
  });
  return request.headers.includes('upgrade') ? kept : [...kept, ['Accept-Encoding', 'identity']];
}

function checkReadable({ headers }: AnswerHead): void {
  const coded = headers.some(
    ([name, value]) => SAY_CODED.includes(name.toLowerCase()) && !/^\s*(identity)?\s*$/i.test(value),
  );
  if (!coded) return;
  throw new AppError(
    'egress_failed',
    'The host encoded its answer though it was asked not to, so nobody could see whether the secret is in it.',
  );
}

/** Forms of it in which it was sent, that are not its own. */
function alsoSentAs(value: SecretValue, place: SecretPlace): readonly string[] {
  return place.in === 'basic' ? [Buffer.from(`${place.username}:${value.reveal()}`).toString('base64')] : [];
}

/** A new version is the same grant: what is under way goes on with the value that it began with. */
function isSame(one: BoundSecret, other: BoundSecret): boolean {
  const plain = ({ secret, ...rest }: BoundSecret) => JSON.stringify([rest, secret.name]);
  return plain(one) === plain(other);
}

function isSameOrNone(one: BoundSecret | null, other: BoundSecret | null): boolean {
  return one === null || other === null ? one === other : isSame(one, other);
}

function shownPlace(place: SecretPlace): string {
  switch (place.in) {
    case 'header':
      return `the header ${place.name}`;
    case 'query':
      return `${place.name} in the query`;
    default:
      return 'the header Authorization';
  }
}
