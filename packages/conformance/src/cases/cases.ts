/** All cases, in the order in which they are tried. */
import type { Case } from '../case.ts';
import { ADDRESS_CASES } from './addresses.ts';
import { CHANNEL_CASES } from './channels.ts';
import { HTTP_CASES } from './http.ts';
import { IDENTITY_CASES } from './identity.ts';
import { LIFE_CASES } from './lives.ts';
import { NEIGHBOUR_CASES } from './neighbours.ts';
import { SPOKEN_CASES } from './spoken.ts';

export const EGRESS_CASES: readonly Case[] = [
  ...IDENTITY_CASES,
  ...SPOKEN_CASES,
  ...HTTP_CASES,
  ...ADDRESS_CASES,
  ...CHANNEL_CASES,
  ...LIFE_CASES,
  ...NEIGHBOUR_CASES,
];
