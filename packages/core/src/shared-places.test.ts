import { expect, it } from 'vitest';
import type { OrganisationId } from './ids.ts';
import { SharedPlaces } from './shared-places.ts';

const ONE = 'org_0000000000000001' as OrganisationId;
const OTHER = 'org_0000000000000002' as OrganisationId;

const refused = expect.objectContaining({ code: 'unavailable', message: expect.stringContaining('streams') });

it('no organisation takes the places of all others, and what is left can be had again', () => {
  const places = new SharedPlaces(4, 'streams');
  const [leave] = [places.enter(ONE), places.enter(ONE)];
  expect(() => places.enter(ONE)).toThrow(refused);
  places.enter(OTHER);
  expect(() => places.enter(OTHER)).toThrow(refused);
  leave?.();
  leave?.();
  // Two are taken, two are free.
  places.enter(OTHER);
  expect(() => places.enter(OTHER)).toThrow(refused);
});
