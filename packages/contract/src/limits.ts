/** Limits of the API, each named once. Sizes in bytes are of UTF-8 text where text is meant. */

/** A JSON request body; what is larger is answered with `payload_too_large`. */
export const MAX_JSON_BODY_BYTES = 1024 * 1024;

/** Children of one fork call. */
export const MAX_FORK_COUNT = 20;

export const MAX_ENV_ENTRIES = 256;
export const MAX_ENV_KEY_LENGTH = 256;
export const MAX_ENV_VALUE_LENGTH = 32 * 1024;

export const MAX_METADATA_ENTRIES = 64;
export const MAX_METADATA_KEY_LENGTH = 64;
export const MAX_METADATA_VALUE_LENGTH = 1024;

export const MAX_NOTE_LENGTH = 4096;

/** Linux's own limit of one argument (MAX_ARG_STRLEN). */
export const MAX_ARGUMENT_LENGTH = 128 * 1024 - 1;
export const MAX_ARGUMENTS = 1024;
/** A command may run for as long as the sandbox; a *timeout* that is set is at most this. */
export const MAX_EXEC_TIMEOUT_MS = 7 * 24 * 60 * 60 * 1000;

/** Of a terminal, each way. */
export const MAX_TERMINAL_LENGTH = 1000;

/** Linux's PATH_MAX less the terminating zero. */
export const MAX_PATH_LENGTH = 4095;

/** Levels of one listing. */
export const MAX_LIST_DEPTH = 16;

/** Linux's own limits of extended attributes. */
export const MAX_XATTR_NAME_LENGTH = 255;
export const MAX_XATTR_BYTES = 64 * 1024;

/** How long a share of a port works. */
export const MIN_SHARE_MS = 1_000;
export const MAX_SHARE_MS = 30 * 24 * 60 * 60 * 1000;
export const DEFAULT_SHARE_MS = 24 * 60 * 60 * 1000;

export const DEFAULT_PAGE_SIZE = 100;
export const MAX_PAGE_SIZE = 1000;

/** How long a call may ask to wait for the end of an operation. */
export const MAX_WAIT_SECONDS = 60;
