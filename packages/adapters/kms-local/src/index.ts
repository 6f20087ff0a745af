/**
 * Keys on this machine. They guard what leaves it without them: a disk, a backup, a copy of the database. Against who reads the
 * files of a running installation they guard nothing; that is what a KMS elsewhere is for.
 */
export { fileKms, makeKeyFile } from './file-kms.ts';
export { passphraseKms } from './passphrase-kms.ts';
