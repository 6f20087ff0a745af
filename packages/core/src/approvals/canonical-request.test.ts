import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { canonicalRequest, countedHeaders, type HeldRequest } from './canonical-request.ts';

const BASE: HeldRequest = {
  secure: true,
  host: 'api.example',
  port: 443,
  method: 'POST',
  url: '/v1/pay?to=me',
  headers: [
    ['Content-Type', 'application/json'],
    ['X-A', '1'],
    ['X-A', '2'],
  ],
  body: Buffer.from('{"cents":1}'),
  added: null,
};
const ADDED = { binding: 'api', secret: 'token', place: 'the header Authorization' };
const formOf = (changes: Partial<HeldRequest> = {}) =>
  Buffer.from(canonicalRequest({ ...BASE, ...changes })).toString('hex');

const text = fc.string({ maxLength: 6 });
const header = fc.tuple(
  fc.constantFrom('a', 'b', 'cc', 'x-a'),
  text.map((one) => one.trim()),
);
const request = fc.record({
  secure: fc.boolean(),
  host: text,
  port: fc.integer({ min: 1, max: 3 }),
  method: text,
  url: text,
  headers: fc.array(header, { maxLength: 4 }),
  body: fc.uint8Array({ maxLength: 6 }),
  added: fc.option(fc.record({ binding: text, secret: text, place: text })),
});

describe('the form of a held request', () => {
  it('is another one when anything of it is', () => {
    const others: Partial<HeldRequest>[] = [
      { secure: false },
      { host: 'api2.example' },
      { port: 444 },
      { method: 'PUT' },
      { url: '/v1/pay?to=you' },
      { url: '/v1/pay' },
      { headers: BASE.headers.slice(0, 2) },
      { headers: [...BASE.headers, ['X-B', '']] },
      { headers: BASE.headers.map(([name, value]) => [name, `${value}.`] as const) },
      {
        headers: [
          ['Content-Type', 'application/json'],
          ['X-A', '2'],
          ['X-A', '1'],
        ],
      },
      {
        headers: [
          ['Content-Type', 'application/json'],
          ['X-A', '1, 2'],
        ],
      },
      { body: Buffer.from('{"cents":2}') },
      { body: Buffer.from('') },
      { added: ADDED },
      { added: { ...ADDED, secret: 'other' } },
      { added: { ...ADDED, place: 'the header X-Key' } },
    ];
    const forms = new Set([formOf(), ...others.map(formOf)]);
    expect(forms.size).toBe(others.length + 1);
  });

  it('is shared by no two requests', () => {
    fc.assert(
      fc.property(request, request, (one, other) => {
        const said = (held: HeldRequest) =>
          JSON.stringify({ ...held, headers: countedHeaders(held), body: [...held.body] });
        const same = Buffer.from(canonicalRequest(one)).equals(canonicalRequest(other));
        expect(same).toBe(said(one) === said(other));
      }),
      { numRuns: 5000 },
    );
  });

  it('is the same whatever the case and the order of names are, and in HTTP/2', () => {
    const shuffled = [
      ['x-a', '1'],
      ['CONTENT-TYPE', 'application/json'],
      ['X-a', ' 2 '],
    ] as const;
    expect(formOf({ headers: shuffled })).toBe(formOf());
    const [whole, pieces] = [
      [['Cookie', 'a=1; b=2']],
      [
        ['cookie', 'a=1'],
        ['cookie', 'b=2'],
      ],
    ] as const;
    expect(formOf({ headers: whole })).toBe(formOf({ headers: pieces }));
  });

  it('leaves out what is of one try, which then does not leave', () => {
    const more = [
      ['Date', 'now'],
      ['traceparent', '00-1'],
      ['Content-Length', '11'],
      ['Transfer-Encoding', 'chunked'],
      ['x-space-approval', 'apr_1'],
    ] as const;
    expect(formOf({ headers: [...BASE.headers, ...more] })).toBe(formOf());
    expect(countedHeaders({ headers: more })).toEqual([]);
  });
});
