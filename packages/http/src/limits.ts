/** Limits and times of the server; all of them bound what one connection can cost. */

/** For the whole head of a request. */
export const HEADERS_TIMEOUT_MS = 15_000;
/** For the whole of a JSON body. */
export const JSON_BODY_TIMEOUT_MS = 30_000;
/** Between two pieces of a file that is uploaded. */
export const UPLOAD_IDLE_MS = 60_000;
/** For how long a reader may leave a stream unread before it is taken for dead. */
export const READER_STALL_MS = 60 * 60 * 1000;
/** How long an idle connection is kept. */
export const KEEP_ALIVE_MS = 72_000;
/** How often a stream that has nothing to say says so, with an empty line. */
export const HEARTBEAT_MS = 15_000;
/** How often a client that asked for it hears that its call is being worked on (102). */
export const INTERIM_MS = 30_000;
/** For how long the rest of an unwanted body is read away, so that the client gets to read the answer. */
export const LINGER_MS = 5_000;
/** For how long a closing server waits for the calls in flight before it ends their streams. */
export const CLOSE_GRACE_MS = 10_000;
/** For how long it then waits for those ends to be written. */
export const CLOSE_LAST_WORDS_MS = 1_000;
/** How often a closing server looks for connections that became idle. */
export const CLOSE_CHECK_MS = 50;
export const MAX_CONNECTIONS = 4096;
/** Of one address, so that the others are left some. A proxy in front of the server is one address too. */
export const MAX_CONNECTIONS_PER_ADDRESS = 2048;
/** Requests that one connection of HTTP/2 may carry at once. */
export const MAX_STREAMS_PER_CONNECTION = 250;
/** For how long a connection to a port may carry nothing, either way. */
export const PORT_IDLE_MS = 60 * 60 * 1000;
/** Of the head of a request to a port, and of the head of its answer. */
export const MAX_PREVIEW_HEADERS = 200;
export const MAX_PREVIEW_HEAD_BYTES = 32 * 1024;
/** Failed attempts with a key, per address, before more are refused. */
export const FAILED_ATTEMPTS_PER_MINUTE = 30;
/** Addresses whose failed attempts, and keys whose success, is remembered. */
export const KNOWN_ADDRESSES = 4096;
export const KNOWN_KEYS = 4096;
