//! From a StartRequest to what exec(2) needs: everything is resolved and allocated here, before the fork.

use std::collections::BTreeMap;
use std::ffi::CString;

use tonic::Status;

use crate::contract::{Pty, StartRequest};
use crate::trust;
use crate::users::User;

const DEFAULT_PATH: &[u8] = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const DEFAULT_TERM: &str = "xterm-256color";
const PROCESS_ID_MAX_BYTES: usize = 64;

pub struct Command {
    /// Where argv[0] may be, in order of preference.
    pub programs: Vec<CString>,
    pub argv: Vec<CString>,
    pub env: Vec<CString>,
    pub cwd: CString,
    pub user: User,
    pub stdio: Stdio,
}

/// What the three streams of a command are.
pub enum Stdio {
    /// Input, if it takes any, and the two kinds of output.
    Pipes {
        stdin: bool,
    },
    Terminal(Pty),
}

impl Command {
    pub fn new(request: &StartRequest, user: User) -> Result<Self, Status> {
        let argv = request.argv.iter().map(|arg| text(arg, "argv")).collect::<Result<Vec<_>, _>>()?;
        if argv.first().is_none_or(|program| program.is_empty()) {
            return Err(Status::invalid_argument("argv: no command"));
        }
        let env = environment(request, &user)?;
        let path = env.get(&b"PATH"[..]).map_or(DEFAULT_PATH, |path| path);
        let programs = programs(&request.argv[0], path)?;
        let cwd = if request.cwd.is_empty() { &user.home } else { &request.cwd[..] };
        if !cwd.starts_with(b"/") {
            return Err(Status::invalid_argument("cwd: not an absolute path"));
        }
        let cwd = text(cwd, "cwd")?;
        let env =
            env.iter().map(|(key, value)| text(&[key, &b"="[..], value].concat(), "env")).collect::<Result<_, _>>()?;
        let stdio = match &request.pty {
            None => Stdio::Pipes { stdin: request.stdin },
            Some(pty) => Stdio::Terminal(terminal(pty)?),
        };
        Ok(Self { programs, argv, env, cwd, user, stdio })
    }
}

/// A process id names a cgroup directory: no dots, which all of the kernel's files there have, and no slashes.
pub fn validate_process_id(id: &str) -> Result<(), Status> {
    let fits = (1..=PROCESS_ID_MAX_BYTES).contains(&id.len())
        && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    if fits { Ok(()) } else { Err(Status::invalid_argument("process_id: 1 to 64 letters, digits, '-' and '_'")) }
}

/// A size that a terminal can have.
pub fn terminal(pty: &Pty) -> Result<Pty, Status> {
    let fits = |length: u32| (1..=u32::from(u16::MAX)).contains(&length);
    if fits(pty.cols) && fits(pty.rows) {
        Ok(pty.clone())
    } else {
        Err(Status::invalid_argument("pty: cols and rows are 1 to 65535"))
    }
}

fn environment(request: &StartRequest, user: &User) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, Status> {
    let mut env = BTreeMap::from([
        (b"HOME".to_vec(), user.home.clone()),
        (b"LOGNAME".to_vec(), user.name.clone()),
        (b"PATH".to_vec(), DEFAULT_PATH.to_vec()),
        (b"SHELL".to_vec(), user.shell.clone()),
        (b"USER".to_vec(), user.name.clone()),
    ]);
    for (key, value) in trust::variables() {
        env.insert(key.as_bytes().to_vec(), value.as_bytes().to_vec());
    }
    if let Some(pty) = &request.pty {
        let term = if pty.term.is_empty() { DEFAULT_TERM } else { &pty.term };
        env.insert(b"TERM".to_vec(), term.as_bytes().to_vec());
    }
    for (key, value) in &request.env {
        if key.is_empty() || key.contains('=') {
            return Err(Status::invalid_argument("env: a name is empty or holds '='"));
        }
        env.insert(key.clone().into_bytes(), value.to_vec());
    }
    Ok(env)
}

fn programs(program: &[u8], path: &[u8]) -> Result<Vec<CString>, Status> {
    if program.contains(&b'/') {
        return Ok(vec![text(program, "argv")?]);
    }
    path.split(|b| *b == b':')
        .map(|directory| if directory.is_empty() { b"." } else { directory })
        .map(|directory| text(&[directory, b"/", program].concat(), "PATH"))
        .collect()
}

fn text(bytes: &[u8], what: &str) -> Result<CString, Status> {
    CString::new(bytes).map_err(|_| Status::invalid_argument(format!("{what}: holds a zero byte")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user() -> User {
        User { name: b"u".into(), uid: 1, gid: 1, groups: vec![1], home: b"/h".into(), shell: b"/bin/sh".into() }
    }

    fn request(argv: &[&'static str], env: &[(&str, &'static str)]) -> StartRequest {
        StartRequest {
            argv: argv.iter().map(|arg| arg.as_bytes().into()).collect(),
            env: env.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().into())).collect(),
            ..StartRequest::default()
        }
    }

    #[test]
    fn looks_up_in_the_path_of_the_request() {
        let command = Command::new(&request(&["ls"], &[("PATH", "/a::/b")]), user()).unwrap();
        assert_eq!(command.programs, [c"/a/ls".to_owned(), c"./ls".to_owned(), c"/b/ls".to_owned()]);
        let direct = Command::new(&request(&["./ls"], &[]), user()).unwrap();
        assert_eq!(direct.programs, [c"./ls".to_owned()]);
    }

    #[test]
    fn requests_environment_wins_over_the_login_environment() {
        let command = Command::new(&request(&["x"], &[("HOME", "/other"), ("A", "b")]), user()).unwrap();
        assert!(command.env.contains(&c"HOME=/other".to_owned()));
        assert!(command.env.contains(&c"A=b".to_owned()));
        assert!(command.env.contains(&c"LOGNAME=u".to_owned()));
        assert_eq!(command.cwd, c"/h".to_owned());
    }

    #[test]
    fn a_terminal_has_a_name_and_a_possible_size() {
        let pty = |cols, rows| Some(Pty { cols, rows, term: String::new() });
        let command = Command::new(&StartRequest { pty: pty(80, 24), ..request(&["x"], &[]) }, user()).unwrap();
        assert!(command.env.contains(&c"TERM=xterm-256color".to_owned()));
        let own = StartRequest { pty: pty(80, 24), ..request(&["x"], &[("TERM", "dumb")]) };
        assert!(Command::new(&own, user()).unwrap().env.contains(&c"TERM=dumb".to_owned()));
        for bad in [pty(0, 1), pty(1, 0), pty(65_536, 1)] {
            assert!(Command::new(&StartRequest { pty: bad, ..request(&["x"], &[]) }, user()).is_err());
        }
    }

    #[test]
    fn refuses_what_exec_could_not_say() {
        for bad in [request(&[], &[]), request(&[""], &[]), request(&["a\0b"], &[]), request(&["a"], &[("A=B", "")])] {
            assert!(Command::new(&bad, user()).is_err());
        }
        let relative = StartRequest { cwd: "tmp".into(), ..request(&["a"], &[]) };
        assert!(Command::new(&relative, user()).is_err());
    }

    #[test]
    fn process_ids_can_not_leave_their_directory() {
        assert!(validate_process_id("prc_01-A").is_ok());
        for bad in ["", ".", "..", "a/b", "cgroup.procs", &"a".repeat(65)] {
            assert!(validate_process_id(bad).is_err(), "{bad:?}");
        }
    }
}
