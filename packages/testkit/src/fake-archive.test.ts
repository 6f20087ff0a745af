import { archiveSuite } from './archive-suite.ts';
import { FakeArchive } from './fake-archive.ts';

archiveSuite('the fake', async () => ({ archive: new FakeArchive(), dispose: async () => undefined }));
