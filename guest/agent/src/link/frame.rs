//! Frames of the link: writing them, and finding them again in a stream that may begin anywhere.
//!
//! Invariant: the parser holds at most one partial header. Payload is handed on as it comes in and never stored, so no
//! length that the other side names costs memory.

pub const HEADER_BYTES: usize = 20;
pub const MAX_PAYLOAD_BYTES: usize = 32_768;

const MAGIC: [u8; 4] = *b"SPLK";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Sync = 1,
    Synced = 2,
    Data = 3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub kind: Kind,
    pub session: u64,
    pub length: usize,
}

impl Header {
    pub fn encode(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = self.kind as u8;
        bytes[8..16].copy_from_slice(&self.session.to_le_bytes());
        bytes[16..].copy_from_slice(&(self.length as u32).to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let [m0, m1, m2, m3, kind, 0, 0, 0, rest @ ..] = bytes else { return None };
        if [*m0, *m1, *m2, *m3] != MAGIC {
            return None;
        }
        let kind = match kind {
            1 => Kind::Sync,
            2 => Kind::Synced,
            3 => Kind::Data,
            _ => return None,
        };
        let session = u64::from_le_bytes(rest[..8].try_into().ok()?);
        let length = u32::from_le_bytes(rest[8..].try_into().ok()?) as usize;
        let limit = if kind == Kind::Data { MAX_PAYLOAD_BYTES } else { 0 };
        (length <= limit).then_some(Self { kind, session, length })
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    Sync(u64),
    /// Some of a frame's payload, in order.
    Data(u64, &'a [u8]),
}

#[derive(Default)]
pub struct Parser {
    header: [u8; HEADER_BYTES],
    filled: usize,
    /// Session and bytes to come of the frame that is being read.
    payload: Option<(u64, usize)>,
}

impl Parser {
    /// The next event in `input`, which advances past what was used. None: more input is needed.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Option<Event<'a>> {
        while !input.is_empty() {
            if self.payload.is_none() && self.filled == 0 {
                self.pass_over(input);
            }
            if let Some((session, left)) = self.payload {
                let (now, rest) = input.split_at(left.min(input.len()));
                *input = rest;
                self.payload = (now.len() < left).then_some((session, left - now.len()));
                return Some(Event::Data(session, now));
            }
            if let Some(event) = self.header(input) {
                return Some(event);
            }
        }
        None
    }

    /// Goes on to the next byte that could begin a header. A host that gets no answer in time sends 32 KiB of none.
    fn pass_over(&self, input: &mut &[u8]) {
        if input[0] != MAGIC[0] {
            let next = input.iter().position(|byte| *byte == MAGIC[0]).unwrap_or(input.len());
            *input = &input[next..];
        }
    }

    fn header(&mut self, input: &mut &[u8]) -> Option<Event<'static>> {
        let (now, rest) = input.split_at((HEADER_BYTES - self.filled).min(input.len()));
        self.header[self.filled..self.filled + now.len()].copy_from_slice(now);
        self.filled += now.len();
        *input = rest;
        if self.filled < HEADER_BYTES {
            return None;
        }
        match Header::decode(&self.header) {
            Some(header) => {
                self.filled = 0;
                match header.kind {
                    Kind::Sync => return Some(Event::Sync(header.session)),
                    Kind::Data if header.length > 0 => self.payload = Some((header.session, header.length)),
                    Kind::Data | Kind::Synced => {}
                }
            }
            None => self.skip(),
        }
        None
    }

    /// Not a header: goes on with the next byte that could begin one.
    fn skip(&mut self) {
        let next = (1..HEADER_BYTES).find(|at| self.header[*at] == MAGIC[0]).unwrap_or(HEADER_BYTES);
        self.header.copy_within(next.., 0);
        self.filled = HEADER_BYTES - next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: Kind, session: u64, payload: &[u8]) -> Vec<u8> {
        let mut bytes = Header { kind, session, length: payload.len() }.encode().to_vec();
        bytes.extend_from_slice(payload);
        bytes
    }

    /// Syncs, and the payload bytes of each session joined.
    fn parse(chunks: &[&[u8]]) -> (Vec<u64>, Vec<(u64, Vec<u8>)>) {
        let (mut parser, mut syncs, mut data) = (Parser::default(), Vec::new(), Vec::<(u64, Vec<u8>)>::new());
        for chunk in chunks {
            let mut input = *chunk;
            while let Some(event) = parser.next(&mut input) {
                match event {
                    Event::Sync(session) => syncs.push(session),
                    Event::Data(session, bytes) => match data.last_mut() {
                        Some((last, joined)) if *last == session => joined.extend_from_slice(bytes),
                        _ => data.push((session, bytes.to_vec())),
                    },
                }
            }
        }
        (syncs, data)
    }

    /// A small generator with a fixed seed, so that a failure repeats.
    fn noise(seed: u64, length: usize) -> Vec<u8> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        (0..length)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                // Bytes of headers come often, so that near misses do.
                if state % 3 == 0 { b"SPLK\x01\x02\x03\0"[(state >> 8) as usize % 8] } else { (state >> 16) as u8 }
            })
            .collect()
    }

    #[test]
    fn reads_frames_cut_at_every_place() {
        let mut bytes = frame(Kind::Sync, 7, b"");
        bytes.extend(frame(Kind::Data, 7, b"hello"));
        bytes.extend(frame(Kind::Data, 7, b" world"));
        for cut in 0..bytes.len() {
            let (a, b) = bytes.split_at(cut);
            assert_eq!(parse(&[a, b]), (vec![7], vec![(7, b"hello world".to_vec())]), "cut at {cut}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(parse(&single), (vec![7], vec![(7, b"hello world".to_vec())]));
    }

    #[test]
    fn finds_a_sync_after_garbage_and_near_misses() {
        for garbage in [&b"SPL"[..], b"SPLSPLK", b"SPLK\x01\0\0\x01", b"SPLK\x09", b"SSSSSSSSSSSSSSSSSSSSSSS", b"x"] {
            let bytes = [garbage, &frame(Kind::Sync, 9, b"")].concat();
            assert_eq!(parse(&[&bytes]).0, vec![9], "after {garbage:?}");
        }
    }

    #[test]
    fn zeros_end_any_cut_frame() {
        let whole = frame(Kind::Data, 1, &vec![b'S'; MAX_PAYLOAD_BYTES]);
        for cut in [1, 3, 19, 20, 21, 1000, MAX_PAYLOAD_BYTES + 19] {
            let zeros = vec![0; MAX_PAYLOAD_BYTES + HEADER_BYTES];
            let sync = frame(Kind::Sync, 2, b"");
            assert_eq!(parse(&[&whole[..cut], &zeros, &sync]).0, vec![2], "cut at {cut}");
        }
    }

    #[test]
    fn refuses_headers_that_break_a_rule() {
        let good = frame(Kind::Data, 1, b"");
        let spoil = |at: usize, byte: u8| {
            let mut header: [u8; HEADER_BYTES] = good[..].try_into().unwrap();
            header[at] = byte;
            Header::decode(&header)
        };
        assert!(Header::decode(&good[..].try_into().unwrap()).is_some());
        for (at, byte) in [(0, b'X'), (4, 0), (4, 4), (5, 1), (6, 1), (7, 1), (18, 1), (19, 0x80)] {
            assert_eq!(spoil(at, byte), None, "byte {at}");
        }
        let sync = Header { kind: Kind::Sync, session: 1, length: 1 }.encode();
        assert_eq!(Header::decode(&sync), None);
    }

    #[test]
    fn random_bytes_never_stop_the_resync() {
        for seed in 1..500 {
            let garbage = noise(seed, (seed as usize * 37) % 3000);
            let mut stream = garbage;
            stream.extend(vec![0; MAX_PAYLOAD_BYTES + HEADER_BYTES]);
            stream.extend(frame(Kind::Sync, u64::MAX - seed, b""));
            let pieces: Vec<&[u8]> = stream.chunks(1 + seed as usize % 700).collect();
            assert_eq!(parse(&pieces).0.last(), Some(&(u64::MAX - seed)), "seed {seed}");
        }
    }
}
