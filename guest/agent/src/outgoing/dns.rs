//! Answers for names, made here: nothing of a question leaves the guest. A name has one address of each kind, which stands for
//! it until somebody connects there; whether there is such a host at all is found out by the gateway, then.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::names::Names;
use super::plan::Range;

const HEADER_BYTES: usize = 12;
const MAX_NAME_BYTES: usize = 253;
const MAX_LABEL_BYTES: usize = 63;
/// Seconds. A name keeps its address while it is used, so this only bounds who keeps an old one.
const TIME_TO_LIVE: u32 = 60;

const A: u16 = 1;
const AAAA: u16 = 28;
const IN: u16 = 1;

const NO_ERROR: u8 = 0;
const FORMAT_ERROR: u8 = 1;
const NO_SUCH_NAME: u8 = 3;
const NOT_IMPLEMENTED: u8 = 4;
const REFUSED: u8 = 5;

/// The answer to a query; none to what is not one.
pub fn answer(query: &[u8], names: &mut Names, range: Range) -> Option<Vec<u8>> {
    let header: &[u8; HEADER_BYTES] = query.first_chunk()?;
    let is_answer = header[2] & 0x80 != 0;
    if is_answer {
        return None;
    }
    if header[2] & 0x78 != 0 {
        return Some(reply(header, NOT_IMPLEMENTED, &[], None));
    }
    let questions = u16::from_be_bytes([header[4], header[5]]);
    let Some(question) = Question::parse(&query[HEADER_BYTES..]).filter(|_| questions == 1) else {
        return Some(reply(header, FORMAT_ERROR, &[], None));
    };
    if question.class != IN {
        return Some(reply(header, REFUSED, question.bytes, None));
    }
    let Some(name) = question.name else {
        return Some(reply(header, NO_SUCH_NAME, question.bytes, None));
    };
    let address = match question.kind {
        _ if name.is_empty() => None,
        A if is_localhost(&name) => Some(Ipv4Addr::LOCALHOST.octets().to_vec()),
        AAAA if is_localhost(&name) => Some(Ipv6Addr::LOCALHOST.octets().to_vec()),
        A => Some(range.v4(names.index_of(&name)).octets().to_vec()),
        AAAA => Some(range.v6(names.index_of(&name)).octets().to_vec()),
        // It may have others, of which nothing is known here.
        _ => None,
    };
    Some(reply(header, NO_ERROR, question.bytes, address.as_deref().map(|address| (question.kind, address))))
}

fn is_localhost(name: &str) -> bool {
    name == "localhost" || name.ends_with(".localhost")
}

struct Question<'a> {
    bytes: &'a [u8],
    /// In lower case, without the dot at the end; none: no host can be called so.
    name: Option<String>,
    kind: u16,
    class: u16,
}

impl<'a> Question<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut labels: Vec<&[u8]> = Vec::new();
        let mut at = 0;
        loop {
            let length = usize::from(*bytes.get(at)?);
            at += 1;
            if length == 0 {
                break;
            }
            if length > MAX_LABEL_BYTES || at + length > MAX_NAME_BYTES + 1 {
                return None;
            }
            labels.push(bytes.get(at..at + length)?);
            at += length;
        }
        let [a, b, c, d] = *bytes.get(at..)?.first_chunk::<4>()?;
        let (kind, class) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        Some(Self { bytes: &bytes[..at + 4], name: host_name(&labels), kind, class })
    }
}

/// Letters, digits, hyphens and underscores; and nothing that a reader could take for an address.
fn host_name(labels: &[&[u8]]) -> Option<String> {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if !labels.iter().all(|label| label.iter().all(is_letter)) || labels.last().is_some_and(|last| is_number(last)) {
        return None;
    }
    let name = labels.join(&b'.').to_ascii_lowercase();
    String::from_utf8(name).ok()
}

fn is_number(label: &[u8]) -> bool {
    match label {
        [b'0', b'x' | b'X', digits @ ..] => digits.iter().all(u8::is_ascii_hexdigit),
        digits => digits.iter().all(u8::is_ascii_digit),
    }
}

fn reply(query: &[u8; HEADER_BYTES], code: u8, question: &[u8], record: Option<(u16, &[u8])>) -> Vec<u8> {
    let recursion_desired = query[2] & 1;
    let mut bytes = vec![query[0], query[1], 0x80 | recursion_desired, 0x80 | code];
    for count in [usize::from(!question.is_empty()), usize::from(record.is_some()), 0, 0] {
        bytes.extend_from_slice(&(count as u16).to_be_bytes());
    }
    bytes.extend_from_slice(question);
    if let Some((kind, data)) = record {
        const NAME_OF_QUESTION: [u8; 2] = [0xc0, HEADER_BYTES as u8];
        bytes.extend_from_slice(&NAME_OF_QUESTION);
        bytes.extend_from_slice(&kind.to_be_bytes());
        bytes.extend_from_slice(&IN.to_be_bytes());
        bytes.extend_from_slice(&TIME_TO_LIVE.to_be_bytes());
        bytes.extend_from_slice(&(data.len() as u16).to_be_bytes());
        bytes.extend_from_slice(data);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(name: &str, kind: u16) -> Vec<u8> {
        let mut bytes = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.').filter(|label| !label.is_empty()) {
            bytes.push(label.len() as u8);
            bytes.extend_from_slice(label.as_bytes());
        }
        bytes.push(0);
        bytes.extend_from_slice(&kind.to_be_bytes());
        bytes.extend_from_slice(&IN.to_be_bytes());
        bytes
    }

    fn ask(names: &mut Names, name: &str, kind: u16) -> (u8, Vec<u8>) {
        let reply = answer(&query(name, kind), names, Range::GUEST).unwrap();
        assert_eq!(reply[..3], [0xab, 0xcd, 0x81]);
        let count = u16::from_be_bytes([reply[6], reply[7]]);
        let question = query(name, kind)[HEADER_BYTES..].to_vec();
        let rest = &reply[HEADER_BYTES + question.len()..];
        assert_eq!(reply[HEADER_BYTES..HEADER_BYTES + question.len()], question);
        let data = if count == 0 { rest } else { &rest[12..] };
        (reply[3] & 0xf, data.to_vec())
    }

    #[test]
    fn a_name_has_an_address_of_each_kind_whatever_its_case() {
        let mut names = Names::default();
        let (code, v4) = ask(&mut names, "Example.COM", A);
        assert_eq!((code, v4), (NO_ERROR, vec![198, 18, 0, 16]));
        let (code, v6) = ask(&mut names, "example.com", AAAA);
        assert_eq!((code, v6), (NO_ERROR, Range::GUEST.v6(16).octets().to_vec()));
        assert_eq!(ask(&mut names, "other.example", A).1, [198, 18, 0, 17]);
        assert_eq!(names.name_at(16).as_deref(), Some("example.com"));
    }

    #[test]
    fn other_kinds_have_no_data_and_make_no_name() {
        let mut names = Names::default();
        for kind in [2, 5, 6, 12, 15, 16, 33, 64, 65, 255] {
            assert_eq!(ask(&mut names, "secret.example.com", kind), (NO_ERROR, vec![]), "{kind}");
        }
        assert_eq!(names.name_at(16), None);
        assert_eq!(ask(&mut names, "", A), (NO_ERROR, vec![]));
    }

    #[test]
    fn localhost_is_local() {
        let mut names = Names::default();
        assert_eq!(ask(&mut names, "localhost", A).1, [127, 0, 0, 1]);
        assert_eq!(ask(&mut names, "app.localhost", AAAA).1, Ipv6Addr::LOCALHOST.octets());
    }

    #[test]
    fn nothing_that_reads_as_an_address_or_is_no_host_name_has_one() {
        let mut names = Names::default();
        for name in ["127.0.0.1", "10", "0x7f.1", "a.0x7f", "0x", "a b.example", "käse.example", "a\0.example"] {
            assert_eq!(ask(&mut names, name, A), (NO_SUCH_NAME, vec![]), "{name}");
        }
        assert_eq!(ask(&mut names, "1password.com", A).0, NO_ERROR);
        assert_eq!(ask(&mut names, "_dmarc.example", A).0, NO_ERROR);
    }

    #[test]
    fn what_is_no_question_is_refused_or_ignored() {
        let mut names = Names::default();
        let mut respond = |bytes: &[u8]| answer(bytes, &mut names, Range::GUEST).map(|reply| reply[3] & 0xf);
        let good = query("example.com", A);
        assert_eq!(respond(&good[..11]), None);
        assert_eq!(respond(&good[..20]), Some(FORMAT_ERROR));
        let mut changed = good.clone();
        changed[2] |= 0x80;
        assert_eq!(respond(&changed), None);
        changed[2] = 0x10;
        assert_eq!(respond(&changed), Some(NOT_IMPLEMENTED));
        let mut two = good.clone();
        two[5] = 2;
        assert_eq!(respond(&two), Some(FORMAT_ERROR));
        let mut chaos = good.clone();
        *chaos.last_mut().unwrap() = 3;
        assert_eq!(respond(&chaos), Some(REFUSED));
        let pointer = [&good[..12], &[0xc0, 12, 0, 1, 0, 1]].concat();
        assert_eq!(respond(&pointer), Some(FORMAT_ERROR));
        assert_eq!(respond(&query(&vec!["a".repeat(63); 4].join("."), A)), Some(FORMAT_ERROR));
        for seed in 0u32..2000 {
            let noise: Vec<u8> = (0..64u32).map(|i| (seed.wrapping_mul(i * i + 31) >> 7) as u8).collect();
            respond(&noise);
        }
    }
}
