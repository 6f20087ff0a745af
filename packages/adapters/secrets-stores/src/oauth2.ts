/**
 * An authorisation server (RFC 6749): access tokens for a refresh token or for client credentials, kept for as long as they are
 * good. A server that changes the refresh token is believed: the new one takes the place of the old.
 */
import { checkedUrl, type SecretStore, SecretValue } from '@space/core';
import { askJson, textAt, unavailable } from './ask.ts';
import type { Way } from './way.ts';

export interface OAuth2Options {
  readonly tokenUrl: string;
}

export function oauth2Store({ tokenUrl }: OAuth2Options, way: Way): SecretStore {
  const url = checkedUrl(tokenUrl);
  return {
    async fetch({ oauth2 }, signal) {
      if (oauth2 === undefined) throw unavailable('The store gives tokens of OAuth 2 only.');
      const { clientId, clientSecret, refreshToken, scope } = oauth2;
      const form = new URLSearchParams({
        grant_type: refreshToken === null ? 'client_credentials' : 'refresh_token',
        ...(refreshToken === null ? {} : { refresh_token: refreshToken.reveal() }),
        ...(scope === null ? {} : { scope }),
        ...(clientSecret === null ? { client_id: clientId } : {}),
      });
      const headers: Record<string, string> = {
        accept: 'application/json',
        'content-type': 'application/x-www-form-urlencoded',
      };
      if (clientSecret !== null) {
        const pair = [clientId, clientSecret.reveal()].map(encodeURIComponent).join(':');
        headers['authorization'] = `Basic ${Buffer.from(pair).toString('base64')}`;
      }
      const answer = await askJson({ url, method: 'POST', headers, body: form.toString() }, way, signal);
      const token = textAt(answer, 'access_token');
      if (token === null) throw unavailable(`${url.host} gave no token.`);
      const next = textAt(answer, 'refresh_token');
      const { expires_in: seconds } = answer as { expires_in?: unknown };
      return {
        value: new SecretValue(token),
        validMs: typeof seconds === 'number' ? seconds * 1000 : null,
        ...(next === null ? {} : { nextRefreshToken: new SecretValue(next) }),
      };
    },
  };
}
