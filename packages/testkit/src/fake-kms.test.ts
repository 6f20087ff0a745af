import { FakeKms } from './fake-kms.ts';
import { kmsSuite } from './kms-suite.ts';

kmsSuite('the fake', async () => {
  const fake = new FakeKms();
  const outage = (mood: 'down' | 'silent') => ({
    begin: async () => {
      fake.mood = mood;
    },
    end: async () => {
      fake.mood = 'up';
    },
  });
  return {
    kms: fake.key('one'),
    other: fake.key('two'),
    disable: async () => fake.set('one', 'disabled'),
    enable: async () => fake.set('one', 'enabled'),
    remove: async () => fake.set('one', 'deleted'),
    outages: { down: outage('down'), silent: outage('silent') },
    dispose: async () => undefined,
  };
}, ['down', 'silent']);
