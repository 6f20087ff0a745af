//! Files, with the authority of a user.

use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};

use crate::host::contract::{
    FileStatus, ListRequest, ReadRequest, StatRequest, WriteReply, WriteRequest,
    file_status::Type,
    read_reply,
    write_request::{Commit, Open, Part},
};
use crate::host::{Agent, Host, is_root, own_uid, until};

fn bytes(path: &Path) -> prost::bytes::Bytes {
    path.as_os_str().as_bytes().to_vec().into()
}

fn me() -> String {
    own_uid().to_string()
}

fn part(part: Part) -> WriteRequest {
    WriteRequest { part: Some(part) }
}

fn open(path: &Path, user: &str, mode: Option<u32>) -> WriteRequest {
    part(Part::Open(Open { path: bytes(path), user: user.into(), mode, if_absent: false }))
}

fn data(data: &[u8]) -> WriteRequest {
    part(Part::Data(data.to_vec().into()))
}

async fn write_as(
    host: &mut Host,
    path: &Path,
    user: &str,
    mode: Option<u32>,
    content: &[u8],
) -> Result<WriteReply, Status> {
    let mut requests = vec![open(path, user, mode)];
    requests.extend(content.chunks(50_000).map(data));
    requests.push(part(Part::Commit(Commit::default())));
    host.files.write(tokio_stream::iter(requests)).await.map(tonic::Response::into_inner)
}

async fn write(host: &mut Host, path: &Path, content: &[u8]) -> Result<WriteReply, Status> {
    write_as(host, path, &me(), None, content).await
}

async fn read(host: &mut Host, request: ReadRequest) -> Result<(FileStatus, Vec<u8>), Status> {
    let mut replies = host.files.read(request).await?.into_inner();
    let Some(read_reply::Part::Status(status)) = replies.message().await?.and_then(|reply| reply.part) else {
        panic!("the status is not first");
    };
    let mut content = Vec::new();
    while let Some(reply) = replies.message().await? {
        let Some(read_reply::Part::Data(data)) = reply.part else { panic!("not data") };
        assert!(data.len() <= 64 << 10);
        content.extend_from_slice(&data);
    }
    Ok((status, content))
}

fn whole(path: &Path) -> ReadRequest {
    ReadRequest { path: bytes(path), user: me(), offset: 0, length: None }
}

fn temporary_files(directory: &Path) -> usize {
    fs::read_dir(directory)
        .unwrap()
        .filter(|e| e.as_ref().unwrap().file_name().as_bytes().starts_with(b".space-"))
        .count()
}

fn content(length: usize) -> Vec<u8> {
    (0..length as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u8).collect()
}

#[tokio::test]
async fn what_is_written_is_read_back() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    for length in [0, 1, 65_535, 65_536, 3_000_001] {
        let (path, content) = (agent.directory.join("new/dir/file"), content(length));
        let written = write(&mut host, &path, &content).await.unwrap();
        assert_eq!((written.size, &written.sha256[..]), (length as u64, &Sha256::digest(&content)[..]));
        assert_eq!(fs::read(&path).unwrap(), content);
        let (status, back) = read(&mut host, whole(&path)).await.unwrap();
        assert!(back == content, "{length}");
        assert_eq!((status.size, status.r#type(), status.mode), (length as u64, Type::File, 0o644));
    }
}

#[tokio::test]
async fn a_part_of_a_file_can_be_read() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let (path, content) = (agent.directory.join("file"), content(200_000));
    fs::write(&path, &content).unwrap();
    for (offset, length, expected) in [
        (0, Some(10), 0..10),
        (70_000, Some(100_000), 70_000..170_000),
        (5, Some(0), 0..0),
        (199_999, None, 199_999..200_000),
        (200_000, None, 0..0),
        (1 << 40, Some(5), 0..0),
    ] {
        let (_, part) = read(&mut host, ReadRequest { offset, length, ..whole(&path) }).await.unwrap();
        assert!(part == content[expected], "{offset} {length:?}");
    }
}

#[tokio::test]
async fn a_write_without_commit_changes_nothing() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let path = agent.directory.join("file");
    write(&mut host, &path, b"before").await.unwrap();

    let ended = tokio_stream::iter(vec![open(&path, &me(), None), data(b"after")]);
    assert_eq!(host.files.write(ended).await.unwrap_err().code(), Code::Aborted);
    assert_eq!((fs::read(&path).unwrap(), temporary_files(&agent.directory)), (b"before".to_vec(), 0));

    let (sender, requests) = mpsc::channel(4);
    let mut files = host.files.clone();
    let call = tokio::spawn(async move { files.write(ReceiverStream::new(requests)).await });
    sender.send(open(&path, &me(), None)).await.unwrap();
    sender.send(data(b"after")).await.unwrap();
    until("the write has begun", || async { temporary_files(&agent.directory) == 1 }).await;
    assert_eq!(fs::read(&path).unwrap(), b"before");
    call.abort();
    until("the temporary file is gone", || async { temporary_files(&agent.directory) == 0 }).await;
    assert_eq!(fs::read(&path).unwrap(), b"before");
}

#[tokio::test]
async fn the_mode_is_the_one_given_or_the_old_one() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let path = agent.directory.join("file");
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    write_as(&mut host, &path, &me(), Some(0o750), b"1").await.unwrap();
    assert_eq!(mode(&path), 0o750);
    write(&mut host, &path, b"2").await.unwrap();
    assert_eq!(mode(&path), 0o750);
    assert_eq!(fs::read(&path).unwrap(), b"2");
    write_as(&mut host, &path, &me(), Some(0), b"3").await.unwrap();
    assert_eq!(mode(&path), 0);
    write_as(&mut host, &path, &me(), Some(0o4755), b"4").await.unwrap();
    assert_eq!(mode(&path), 0o4755);
    // As a write by hand does.
    write(&mut host, &path, b"5").await.unwrap();
    assert_eq!(mode(&path), 0o755);
}

#[tokio::test]
async fn errors_say_what_is_wrong() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let directory = &agent.directory;
    let fifo = directory.join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    fs::write(directory.join("plain"), "x").unwrap();
    let long = directory.join("n".repeat(300));
    let cases = [
        (directory.join("missing"), Code::NotFound, "ENOENT"),
        (directory.join("plain/below"), Code::FailedPrecondition, "ENOTDIR"),
        (directory.clone(), Code::FailedPrecondition, "EISDIR"),
        (fifo.clone(), Code::FailedPrecondition, "not a regular file"),
        (PathBuf::from("/dev/zero"), Code::FailedPrecondition, "not a regular file"),
        (long.clone(), Code::InvalidArgument, "ENAMETOOLONG"),
        (PathBuf::new(), Code::InvalidArgument, "ENOENT"),
    ];
    for (path, code, name) in cases {
        let call = tokio::time::timeout(Duration::from_secs(10), read(&mut host, whole(&path)));
        let refused = call.await.expect("a special file blocks nothing").unwrap_err();
        assert_eq!(refused.code(), code, "{} {refused}", path.display());
        assert!(refused.message().starts_with(name), "{refused}");
    }
    for path in [directory.clone(), fifo, directory.join("x/"), PathBuf::from("/dev/null")] {
        let refused = write(&mut host, &path, b"x").await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{} {refused}", path.display());
    }
    assert_eq!(write(&mut host, &long, b"x").await.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(
        write(&mut host, &directory.join("plain/below"), b"x").await.unwrap_err().code(),
        Code::FailedPrecondition
    );
}

#[tokio::test]
async fn the_kernel_decides_what_the_user_may_do() {
    if !is_root() {
        return eprintln!("SKIPPED: only root can become another user");
    }
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let (closed, open) = (agent.directory.join("closed"), agent.directory.join("open"));
    for (directory, mode) in [(&closed, 0o700), (&open, 0o777)] {
        fs::create_dir(directory).unwrap();
        fs::set_permissions(directory, Permissions::from_mode(mode)).unwrap();
    }
    fs::write(closed.join("secret"), "x").unwrap();
    let as_nobody = ReadRequest { user: "nobody".into(), ..whole(&closed.join("secret")) };
    assert_eq!(read(&mut host, as_nobody).await.unwrap_err().code(), Code::PermissionDenied);
    let refused = write_as(&mut host, &closed.join("new/file"), "nobody", None, b"x").await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    write_as(&mut host, &open.join("new/file"), "nobody", None, b"x").await.unwrap();
    for made in [open.join("new"), open.join("new/file")] {
        let metadata = fs::metadata(made).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (65534, 65534));
    }
    // The agent itself is as before.
    assert!(read(&mut host, whole(&closed.join("secret"))).await.is_ok());
}

#[tokio::test]
async fn a_full_disk_is_told_and_leaves_the_old_file() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let small = agent.directory.join("small");
    fs::create_dir(&small).unwrap();
    let mount =
        std::process::Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"]).arg(&small).output();
    if !mount.is_ok_and(|output| output.status.success()) {
        return eprintln!("SKIPPED: a small file system can't be mounted here");
    }
    let path = small.join("file");
    write(&mut host, &path, b"before").await.unwrap();
    let refused = write(&mut host, &path, &content(1_000_000)).await.unwrap_err();
    let (kept, left) = (fs::read(&path).unwrap(), temporary_files(&small));
    assert!(std::process::Command::new("umount").arg(&small).status().unwrap().success());
    assert_eq!((refused.code(), refused.message().starts_with("ENOSPC")), (Code::ResourceExhausted, true), "{refused}");
    assert_eq!((kept, left), (b"before".to_vec(), 0));
}

#[tokio::test]
async fn a_directory_is_listed_in_byte_order() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    let directory = agent.directory.join("many");
    fs::create_dir(&directory).unwrap();
    let mut names: Vec<Vec<u8>> = (0..600).map(|number| format!("n{}", number * 7919 % 600).into_bytes()).collect();
    names.push(b"\xff\xfe".to_vec());
    for name in &names {
        fs::write(directory.join(std::ffi::OsStr::from_bytes(name)), "").unwrap();
    }
    symlink("/some/target", directory.join("link")).unwrap();
    names.push(b"link".to_vec());
    names.sort();

    let request = ListRequest { path: bytes(&directory), user: me(), depth: 0 };
    let mut replies = host.files.list(request).await.unwrap().into_inner();
    let mut entries = Vec::new();
    while let Some(reply) = replies.message().await.unwrap() {
        assert!(prost::Message::encoded_len(&reply) <= 64 << 10);
        entries.extend(reply.entries);
    }
    assert!(entries.iter().map(|entry| &entry.name[..]).eq(names.iter().map(|name| &name[..])));
    let link = entries.iter().find(|entry| &entry.name[..] == b"link").unwrap();
    assert_eq!((link.r#type(), &link.link_target[..]), (Type::Symlink, &b"/some/target"[..]));
}

#[tokio::test]
async fn stat_follows_links_if_asked_to() {
    let agent = Agent::start().await;
    let mut host = agent.open().await;
    fs::write(agent.directory.join("file"), "12345").unwrap();
    symlink("file", agent.directory.join("link")).unwrap();
    let request = StatRequest { path: bytes(&agent.directory.join("link")), user: me(), no_follow: false };
    let status = host.files.stat(request).await.unwrap().into_inner().status.unwrap();
    assert_eq!((status.r#type(), status.size, status.uid, &status.name[..]), (Type::File, 5, own_uid(), &b"link"[..]));
    let request = StatRequest { path: bytes(&agent.directory.join("link")), user: me(), no_follow: true };
    let status = host.files.stat(request).await.unwrap().into_inner().status.unwrap();
    assert_eq!((status.r#type(), &status.link_target[..]), (Type::Symlink, &b"file"[..]));
}
