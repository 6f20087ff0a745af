//! Changes of names and attributes, and telling of changes.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use prost::bytes::Bytes;
use tonic::{Code, Status, Streaming};

use crate::host::contract::{
    FileStatus, ListRequest, MakeDirectoryRequest, MakeSymlinkRequest, MoveRequest, RemoveRequest,
    SetAttributesRequest, SetXattrRequest, WatchReply, WatchRequest, WriteRequest, XattrRequest,
    file_status::Type,
    watch_event::Kind,
    write_request::{Commit, Open, Part},
};
use crate::host::{Agent, Host, is_root, own_uid};

fn bytes(path: &Path) -> Bytes {
    path.as_os_str().as_bytes().to_vec().into()
}

fn me() -> String {
    own_uid().to_string()
}

fn names(directory: &Path) -> Vec<Vec<u8>> {
    let mut names: Vec<_> =
        fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().as_bytes().to_vec()).collect();
    names.sort();
    names
}

async fn remove(host: &mut Host, path: &Path, recursive: bool) -> Result<u64, Status> {
    let request = RemoveRequest { path: bytes(path), user: me(), recursive };
    let mut replies = host.files.remove(request).await?.into_inner();
    let mut removed = None;
    while let Some(reply) = replies.message().await? {
        assert!(removed.is_none(), "something follows the last reply");
        removed = reply.done.then_some(reply.removed);
    }
    Ok(removed.expect("a removal ends with done"))
}

async fn list(host: &mut Host, path: &Path, depth: u32) -> Result<Vec<FileStatus>, Status> {
    let request = ListRequest { path: bytes(path), user: me(), depth };
    let mut replies = host.files.list(request).await?.into_inner();
    let mut entries = Vec::new();
    while let Some(reply) = replies.message().await? {
        assert!(prost::Message::encoded_len(&reply) <= 64 << 10);
        entries.extend(reply.entries);
    }
    Ok(entries)
}

async fn write(host: &mut Host, open: Open, commit: Commit) -> Result<(), Status> {
    let parts = [Part::Open(open), Part::Data(Bytes::from_static(b"new")), Part::Commit(commit)];
    let requests = parts.map(|part| WriteRequest { part: Some(part) });
    host.files.write(tokio_stream::iter(requests)).await.map(drop)
}

#[tokio::test]
async fn a_name_of_any_bytes_is_made_listed_moved_and_removed() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let directory = agent.directory.join("odd");
    fs::create_dir(&directory).unwrap();
    let odd: [&[u8]; 6] = [b"-rf", b" ", b"a\nb", b"\xff\xfe", b"\x01", "\u{202e}".as_bytes()];
    for name in odd {
        let path = directory.join(OsStr::from_bytes(name));
        let open = Open { path: bytes(&path), user: me(), ..Open::default() };
        write(&mut host, open, Commit::default()).await.unwrap();
        let to = directory.join(OsStr::from_bytes(&[name, b"\xfd"].concat()));
        let request = MoveRequest { from: bytes(&path), to: bytes(&to), user: me(), no_replace: true };
        host.files.r#move(request).await.unwrap();
        assert_eq!(&list(&mut host, &directory, 1).await.unwrap()[0].name[..], to.file_name().unwrap().as_bytes());
        assert_eq!(remove(&mut host, &to, false).await.unwrap(), 1);
    }
    assert!(names(&directory).is_empty());
}

#[tokio::test]
async fn directories_are_made_with_their_mode_and_parents() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let make = |path: &str, parents, mode| MakeDirectoryRequest {
        path: bytes(&agent.directory.join(path)),
        user: me(),
        parents,
        mode,
    };
    let made = host.files.make_directory(make("a", false, Some(0o1777))).await.unwrap().into_inner().status.unwrap();
    assert_eq!((made.r#type(), made.mode), (Type::Directory, 0o1777));
    let refused = host.files.make_directory(make("a", false, None)).await.unwrap_err();
    assert_eq!((refused.code(), refused.message().starts_with("EEXIST")), (Code::AlreadyExists, true));
    let kept = host.files.make_directory(make("a", true, Some(0o700))).await.unwrap().into_inner().status.unwrap();
    assert_eq!(kept.mode, 0o1777);
    assert_eq!(host.files.make_directory(make("b/c/d", false, None)).await.unwrap_err().code(), Code::NotFound);
    let deep = host.files.make_directory(make("b/c/d", true, Some(0))).await.unwrap().into_inner().status.unwrap();
    assert_eq!(deep.mode, 0);
    assert_eq!(fs::metadata(agent.directory.join("b/c")).unwrap().mode() & 0o7777, 0o755);
    fs::write(agent.directory.join("file"), "").unwrap();
    let refused = host.files.make_directory(make("file", true, None)).await.unwrap_err();
    assert!(refused.message().starts_with("EEXIST"), "{refused}");
}

#[tokio::test]
async fn a_move_replaces_or_does_not() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let at = |name: &str| agent.directory.join(name);
    fs::write(at("a"), "a").unwrap();
    fs::write(at("b"), "b").unwrap();
    fs::create_dir_all(at("full/x")).unwrap();
    fs::create_dir(at("directory")).unwrap();
    let order = |from: &str, to: &str, no_replace| MoveRequest {
        from: bytes(&at(from)),
        to: bytes(&at(to)),
        user: me(),
        no_replace,
    };
    let refused = host.files.r#move(order("a", "b", true)).await.unwrap_err();
    assert!(refused.message().starts_with("EEXIST"), "{refused}");
    host.files.r#move(order("a", "b", false)).await.unwrap();
    assert_eq!((fs::read(at("b")).unwrap(), at("a").exists()), (b"a".to_vec(), false));
    host.files.r#move(order("b", "full/x/b", false)).await.unwrap();
    for (from, to, errno) in [
        ("none", "x", "ENOENT"),
        ("full/x/b", "none/x", "ENOENT"),
        ("directory", "full", "ENOTEMPTY"),
        ("directory", "full/x/b", "ENOTDIR"),
        ("full/x/b", "directory", "EISDIR"),
        ("full", "full/x/y", "EINVAL"),
    ] {
        let refused = host.files.r#move(order(from, to, false)).await.unwrap_err();
        assert!(refused.message().starts_with(errno), "{from} to {to}: {refused}");
    }
    symlink("full", at("link")).unwrap();
    host.files.r#move(order("link", "other", false)).await.unwrap();
    assert_eq!(fs::read_link(at("other")).unwrap(), Path::new("full"));
}

#[tokio::test]
async fn a_removal_takes_what_is_named_and_never_what_a_link_points_to() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let at = |name: &str| agent.directory.join(name);
    fs::create_dir_all(at("outside/inner")).unwrap();
    fs::write(at("outside/kept"), "").unwrap();
    fs::create_dir_all(at("tree/a/b")).unwrap();
    fs::write(at("tree/a/file"), "").unwrap();
    symlink(at("outside"), at("tree/a/link")).unwrap();
    symlink("missing", at("tree/dangling")).unwrap();
    symlink(at("outside"), at("link")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(at("tree/fifo")).status().unwrap().success());

    let refused = remove(&mut host, &at("tree"), false).await.unwrap_err();
    assert!(refused.message().starts_with("ENOTEMPTY"), "{refused}");
    assert_eq!(remove(&mut host, &at("tree"), true).await.unwrap(), 7);
    assert_eq!(remove(&mut host, &at("link/"), true).await.unwrap(), 1);
    assert!(at("outside/kept").exists() && at("outside/inner").exists() && !at("tree").exists());
    assert_eq!(remove(&mut host, &at("outside/inner"), false).await.unwrap(), 1);
    assert_eq!(remove(&mut host, &at("none"), true).await.unwrap_err().code(), Code::NotFound);
    for root in ["/", "/tmp/.."] {
        assert_eq!(remove(&mut host, Path::new(root), true).await.unwrap_err().code(), Code::InvalidArgument);
    }
}

#[tokio::test]
async fn a_tree_of_any_depth_and_width_is_removed() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let top = agent.directory.join("top");
    fs::create_dir(&top).unwrap();
    for number in 0..3000 {
        fs::write(top.join(number.to_string()), "").unwrap();
    }
    // Deeper than a path can be long: what is there is put one level down, again and again.
    let (chain, wrapped) = (top.join("chain"), top.join("wrapped"));
    fs::create_dir(&chain).unwrap();
    for _ in 0..300 {
        fs::create_dir_all(wrapped.join("empty")).unwrap();
        fs::write(wrapped.join("f"), "").unwrap();
        fs::rename(&chain, wrapped.join("a".repeat(16))).unwrap();
        fs::rename(&wrapped, &chain).unwrap();
    }
    assert_eq!(remove(&mut host, &top, true).await.unwrap(), 3000 + 300 * 3 + 2);
    assert!(!top.exists());
}

#[tokio::test]
async fn owner_and_mode_are_changed_as_the_kernel_allows() {
    if !is_root() {
        return eprintln!("SKIPPED: only root can change an owner");
    }
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    fs::set_permissions(&agent.directory, Permissions::from_mode(0o777)).unwrap();
    let file = agent.directory.join("file");
    fs::write(&file, "").unwrap();
    let order = |user: &str, mode, owner: &str, group: &str| SetAttributesRequest {
        path: bytes(&file),
        user: user.into(),
        no_follow: false,
        mode,
        owner: owner.into(),
        group: group.into(),
    };
    let set = host.files.set_attributes(order("0", Some(0o4755), "nobody", "12345")).await.unwrap().into_inner();
    let set = set.status.unwrap();
    assert_eq!((set.uid, set.gid, set.mode), (65534, 12345, 0o4755));
    let refused = host.files.set_attributes(order("nobody", None, "0", "")).await.unwrap_err();
    assert!(refused.message().starts_with("EPERM"), "{refused}");
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o4755);
    // A new owner gets no set-id program; a mode that is given comes after.
    host.files.set_attributes(order("0", None, "0", "")).await.unwrap();
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o755);
    let refused = host.files.set_attributes(order("nobody", Some(0o777), "", "")).await.unwrap_err();
    assert!(refused.message().starts_with("EPERM"), "{refused}");
    let refused = host.files.set_attributes(order("0", None, "nobody-at-all", "")).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    host.files.set_attributes(order("0", Some(0), "", "")).await.unwrap();
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0);
}

#[tokio::test]
async fn a_link_is_made_as_it_is_written() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let path = agent.directory.join("link");
    let order = MakeSymlinkRequest { path: bytes(&path), user: me(), target: Bytes::from_static(b"no\xffwhere") };
    let made = host.files.make_symlink(order.clone()).await.unwrap().into_inner().status.unwrap();
    assert_eq!((made.r#type(), &made.link_target[..]), (Type::Symlink, &b"no\xffwhere"[..]));
    assert_eq!(host.files.make_symlink(order).await.unwrap_err().code(), Code::AlreadyExists);
}

#[tokio::test]
async fn extended_attributes_are_set_listed_read_and_removed() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let path = agent.directory.join("file");
    fs::write(&path, "").unwrap();
    let of = |name: &'static [u8]| XattrRequest { path: bytes(&path), user: me(), no_follow: false, name: name.into() };
    let set = SetXattrRequest { attribute: Some(of(b"user.n\xffte")), value: Bytes::from_static(b"\0\xff") };
    match host.files.set_xattr(set).await {
        Err(refused) if refused.message().starts_with("EOPNOTSUPP") => {
            return eprintln!("SKIPPED: the file system here has no extended attributes");
        }
        set => set.unwrap(),
    };
    assert_eq!(host.files.list_xattrs(of(b"")).await.unwrap().into_inner().names, [&b"user.n\xffte"[..]]);
    assert_eq!(host.files.get_xattr(of(b"user.n\xffte")).await.unwrap().into_inner().value, &b"\0\xff"[..]);
    let refused = host.files.get_xattr(of(b"user.none")).await.unwrap_err();
    assert!(refused.message().starts_with("ENODATA"), "{refused}");
    host.files.remove_xattr(of(b"user.n\xffte")).await.unwrap();
    assert!(host.files.list_xattrs(of(b"")).await.unwrap().into_inner().names.is_empty());
}

#[tokio::test]
async fn a_listing_goes_as_deep_as_asked_and_follows_no_link() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let root = agent.directory.join("root");
    fs::create_dir_all(root.join("b/c/d")).unwrap();
    fs::write(root.join("b/c/file"), "").unwrap();
    fs::write(root.join("a"), "").unwrap();
    fs::write(root.join("b.txt"), "").unwrap();
    symlink("..", root.join("b/up")).unwrap();
    let paths = async |host: &mut Host, depth| {
        let entries = list(host, &root, depth).await.unwrap();
        entries.iter().map(|entry| String::from_utf8(entry.path.to_vec()).unwrap()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(paths(&mut host, 0).await, "a b b.txt");
    assert_eq!(paths(&mut host, 2).await, "a b b/c b/up b.txt");
    assert_eq!(paths(&mut host, 16).await, "a b b/c b/c/d b/c/file b/up b.txt");
    assert_eq!(list(&mut host, &root, 17).await.unwrap_err().code(), Code::InvalidArgument);
    let refused = list(&mut host, &root.join("a"), 1).await.unwrap_err();
    assert!(refused.message().starts_with("ENOTDIR"), "{refused}");
    for number in 0..2000 {
        fs::write(root.join(format!("b/c/{number:0200}")), "").unwrap();
    }
    assert_eq!(list(&mut host, &root, 16).await.unwrap().len(), 2007);
}

#[tokio::test]
async fn a_directory_that_the_user_may_not_read_is_marked_and_not_silently_empty() {
    if !is_root() {
        return eprintln!("SKIPPED: only root can become another user");
    }
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let root = agent.directory.join("root");
    fs::create_dir_all(root.join("closed/x")).unwrap();
    fs::create_dir_all(root.join("blind/x")).unwrap();
    fs::set_permissions(root.join("closed"), Permissions::from_mode(0o700)).unwrap();
    fs::set_permissions(root.join("blind"), Permissions::from_mode(0o744)).unwrap();
    let request = ListRequest { path: bytes(&root), user: "nobody".into(), depth: 3 };
    let reply = host.files.list(request).await.unwrap().into_inner().message().await.unwrap().unwrap();
    let seen: Vec<_> = reply.entries.iter().map(|entry| (&entry.path[..], entry.unreadable)).collect();
    assert_eq!(seen, [(&b"blind"[..], true), (&b"closed"[..], true)]);
}

#[tokio::test]
async fn a_write_is_refused_when_something_is_there_or_the_digest_differs() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let path = agent.directory.join("file");
    let open = |if_absent| Open { path: bytes(&path), user: me(), if_absent, ..Open::default() };
    let wrong = Commit { sha256: vec![0; 32].into() };
    assert_eq!(write(&mut host, open(false), wrong).await.unwrap_err().code(), Code::Aborted);
    assert_eq!(names(&agent.directory).len(), 2, "only the sockets");
    write(&mut host, open(true), Commit::default()).await.unwrap();
    let refused = write(&mut host, open(true), Commit::default()).await.unwrap_err();
    assert!(refused.message().starts_with("EEXIST"), "{refused}");
    symlink("nowhere", agent.directory.join("dangling")).unwrap();
    let dangling = Open { path: bytes(&agent.directory.join("dangling")), ..open(true) };
    assert_eq!(write(&mut host, dangling, Commit::default()).await.unwrap_err().code(), Code::AlreadyExists);
    assert_eq!(fs::read(&path).unwrap(), b"new");
}

/// The events of a watch as one reads them.
struct Watched {
    replies: Streaming<WatchReply>,
    waiting: std::collections::VecDeque<String>,
}

impl Watched {
    async fn start(host: &mut Host, path: &Path, recursive: bool) -> Self {
        let request = WatchRequest { path: bytes(path), user: me(), recursive };
        let mut replies = host.files.watch(request).await.unwrap().into_inner();
        assert!(replies.message().await.unwrap().unwrap().events.is_empty());
        Self { replies, waiting: Default::default() }
    }

    async fn next(&mut self) -> Result<String, Status> {
        while self.waiting.is_empty() {
            let waited = tokio::time::timeout(Duration::from_secs(20), self.replies.message()).await;
            let reply = waited.expect("an event comes in time")?.expect("a watch does not end by itself");
            assert!(prost::Message::encoded_len(&reply) <= 64 << 10);
            for event in reply.events {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let from =
                    if event.kind() == Kind::Moved { format!("{} > ", text(&event.from)) } else { String::new() };
                self.waiting.push_back(format!("{} {from}{}", event.kind().as_str_name(), text(&event.path)));
            }
        }
        Ok(self.waiting.pop_front().expect("one waits"))
    }

    async fn until(&mut self, wanted: &str) {
        while self.next().await.unwrap() != wanted {}
    }
}

#[tokio::test]
async fn a_watch_tells_of_each_kind_of_change() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let root = agent.directory.join("root");
    fs::create_dir_all(root.join("inner")).unwrap();
    let mut watched = Watched::start(&mut host, &root, false).await;
    fs::write(root.join("a"), "x").unwrap();
    assert_eq!(watched.next().await.unwrap(), "CREATED a");
    assert_eq!(watched.next().await.unwrap(), "MODIFIED a");
    fs::set_permissions(root.join("a"), Permissions::from_mode(0o600)).unwrap();
    assert_eq!(watched.next().await.unwrap(), "ATTRIBUTES a");
    fs::write(root.join("inner/unseen"), "").unwrap();
    fs::rename(root.join("a"), root.join("b")).unwrap();
    assert_eq!(watched.next().await.unwrap(), "MOVED a > b");
    fs::rename(root.join("b"), agent.directory.join("b")).unwrap();
    assert_eq!(watched.next().await.unwrap(), "REMOVED b");
    fs::rename(agent.directory.join("b"), root.join("c")).unwrap();
    assert_eq!(watched.next().await.unwrap(), "CREATED c");
    fs::remove_file(root.join("c")).unwrap();
    assert_eq!(watched.next().await.unwrap(), "REMOVED c");
    fs::remove_dir_all(&root).unwrap();
    let gone = loop {
        if let Err(gone) = watched.next().await {
            break gone;
        }
    };
    assert_eq!(gone.code(), Code::NotFound);
}

#[tokio::test]
async fn a_recursive_watch_covers_what_is_made_and_moved_later() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let (root, outside) = (agent.directory.join("root"), agent.directory.join("outside"));
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::create_dir_all(outside.join("deep")).unwrap();
    symlink(&outside, root.join("link")).unwrap();
    let mut watched = Watched::start(&mut host, &root, true).await;
    fs::write(root.join("a/b/file"), "").unwrap();
    assert_eq!(watched.next().await.unwrap(), "CREATED a/b/file");
    fs::write(outside.join("unseen"), "").unwrap();
    fs::create_dir_all(root.join("new/er")).unwrap();
    fs::write(root.join("new/er/f"), "").unwrap();
    watched.until("CREATED new").await;
    watched.until("CREATED new/er/f").await;
    fs::rename(root.join("new"), root.join("a/moved")).unwrap();
    watched.until("MOVED new > a/moved").await;
    fs::write(root.join("a/moved/er/g"), "").unwrap();
    watched.until("CREATED a/moved/er/g").await;
    fs::rename(root.join("a/moved"), agent.directory.join("gone")).unwrap();
    watched.until("REMOVED a/moved").await;
    fs::write(agent.directory.join("gone/er/unseen"), "").unwrap();
    fs::rename(&outside, root.join("arrived")).unwrap();
    assert_eq!(watched.next().await.unwrap(), "CREATED arrived");
    watched.until("CREATED arrived/deep").await;
    fs::write(root.join("arrived/deep/h"), "").unwrap();
    watched.until("CREATED arrived/deep/h").await;
}

#[tokio::test]
async fn a_reader_that_lags_is_told_that_it_missed_something() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let root = agent.directory.join("root");
    fs::create_dir(&root).unwrap();
    let mut watched = Watched::start(&mut host, &root, false).await;
    let queue: usize = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap().trim().parse().unwrap();
    let name = "n".repeat(200);
    // Far more than queue, channel and window hold.
    for number in 0..2 * queue + 20_000 {
        let path = root.join(format!("{name}{}", number % 2));
        if fs::remove_file(&path).is_err() {
            fs::write(&path, "").unwrap();
        }
    }
    watched.until("OVERFLOW ").await;
    fs::write(root.join("last"), "").unwrap();
    watched.until("CREATED last").await;
}

#[tokio::test]
async fn a_watch_that_is_left_gives_its_place_back() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    for _ in 0..40 {
        let mut places: Vec<_> = Vec::new();
        for _ in 0..8 {
            places.push(Watched::start(&mut host, &agent.directory, true).await);
        }
        drop(places);
        let tasks = PathBuf::from(format!("/proc/{}/task", agent.pid()));
        crate::host::until("the threads end", || async { fs::read_dir(&tasks).unwrap().count() <= 2 }).await;
    }
    let mut places: Vec<_> = Vec::new();
    for _ in 0..16 {
        places.push(Watched::start(&mut host, &agent.directory, false).await);
    }
    let request = WatchRequest { path: bytes(&agent.directory), user: me(), recursive: false };
    assert_eq!(host.files.watch(request).await.unwrap_err().code(), Code::ResourceExhausted);
}

#[tokio::test]
async fn a_directory_that_the_user_may_not_read_is_not_watched() {
    if !is_root() {
        return eprintln!("SKIPPED: only root can become another user");
    }
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let closed = agent.directory.join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, Permissions::from_mode(0o700)).unwrap();
    fs::write(agent.directory.join("file"), "").unwrap();
    for (path, errno) in
        [(closed, "EACCES"), (agent.directory.join("file"), "ENOTDIR"), (agent.directory.join("x"), "ENOENT")]
    {
        let request = WatchRequest { path: bytes(&path), user: "nobody".into(), recursive: true };
        let refused = host.files.watch(request).await.unwrap().into_inner().message().await.unwrap_err();
        assert!(refused.message().starts_with(errno), "{refused}");
    }
}

#[tokio::test]
async fn a_disk_without_inodes_is_told_and_nothing_is_left() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let small = agent.directory.join("small");
    fs::create_dir(&small).unwrap();
    let mount = ["-t", "tmpfs", "-o", "nr_inodes=3", "tmpfs"];
    let mounted = std::process::Command::new("mount").args(mount).arg(&small).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        return eprintln!("SKIPPED: a small file system can't be mounted here");
    }
    let mut refused = None;
    for number in 0..4 {
        let open = Open { path: bytes(&small.join(number.to_string())), user: me(), ..Open::default() };
        refused = refused.or(write(&mut host, open, Commit::default()).await.err());
    }
    let left = names(&small);
    assert!(std::process::Command::new("umount").arg(&small).status().unwrap().success());
    assert!(refused.unwrap().message().starts_with("ENOSPC"));
    assert_eq!(left.len(), 2, "what was written before");
}
