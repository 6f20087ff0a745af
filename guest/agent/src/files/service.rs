//! The Files service: connects streams of the contract with the thread that does the work.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};

use prost::bytes::Bytes;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use crate::contract::{
    FileStatus, GetXattrReply, ListReply, ListRequest, ListXattrsReply, MakeDirectoryRequest, MakeSymlinkRequest,
    MoveReply, MoveRequest, ReadReply, ReadRequest, RemoveReply, RemoveRequest, RemoveXattrReply, SetAttributesRequest,
    SetXattrReply, SetXattrRequest, StatReply, StatRequest, WatchReply, WatchRequest, WriteReply, WriteRequest,
    XattrRequest, files_server, write_request::Part,
};
use crate::users::{self, User};

use super::authority::Authority;
use super::change::{self, Attributes};
use super::list::{self, list};
use super::path::resolve;
use super::read::{QUEUED_CHUNKS, Range, read};
use super::remove::{self, remove};
use super::watch::{self, watch};
use super::write::{Step, Target, write};
use super::xattr::Attribute;

const MAX_THREADS: usize = 32;
const MAX_WATCHES: usize = 16;

#[derive(Clone)]
pub struct Files {
    authority: Authority,
    /// Apart, since a watch holds its thread for as long as it is wanted.
    watchers: Authority,
}

impl Files {
    pub fn new() -> Self {
        Self { authority: Authority::with_threads(MAX_THREADS), watchers: Authority::with_places(MAX_WATCHES) }
    }

    /// Does something with a path as the user, and returns what it gives.
    async fn run<T: Send + 'static>(
        &self,
        user: &str,
        path: &[u8],
        work: impl FnOnce(&Path) -> Result<T, Status> + Send + 'static,
    ) -> Result<T, Status> {
        let (user, path) = target(user, path)?;
        self.authority.run(&user, move |_| work(&path)).await
    }

    async fn status(
        &self,
        user: &str,
        path: &[u8],
        work: impl FnOnce(&Path) -> Result<FileStatus, Status> + Send + 'static,
    ) -> Result<Response<StatReply>, Status> {
        let status = self.run(user, path, work).await?;
        Ok(Response::new(StatReply { status: Some(status) }))
    }
}

fn target(user: &str, path: &[u8]) -> Result<(User, PathBuf), Status> {
    let user = users::requested(user)?;
    let path = resolve(&user, path)?;
    Ok((user, path))
}

fn permission_bits(mode: Option<u32>) -> Result<Option<u32>, Status> {
    match mode {
        Some(mode) if mode & !0o7777 != 0 => Err(Status::invalid_argument("EINVAL: a mode is permission bits")),
        mode => Ok(mode),
    }
}

/// Of an owner or a group that is given; empty says nothing.
fn id(who: &str, find: impl FnOnce(&str) -> Result<u32, Status>) -> Result<Option<u32>, Status> {
    if who.is_empty() { Ok(None) } else { find(who).map(Some) }
}

#[tonic::async_trait]
impl files_server::Files for Files {
    type ReadStream = ReceiverStream<Result<ReadReply, Status>>;
    type ListStream = ReceiverStream<Result<ListReply, Status>>;
    type RemoveStream = ReceiverStream<Result<RemoveReply, Status>>;
    type WatchStream = Watching;

    async fn read(&self, request: Request<ReadRequest>) -> Result<Response<Self::ReadStream>, Status> {
        let ReadRequest { path, user, offset, length } = request.into_inner();
        let (user, path) = target(&user, &path)?;
        let work = move |_: &User, chunks: &_| read(&path, &Range { offset, length }, chunks);
        let chunks = self.authority.stream(&user, QUEUED_CHUNKS, work).await?;
        Ok(Response::new(ReceiverStream::new(chunks)))
    }

    async fn write(&self, request: Request<Streaming<WriteRequest>>) -> Result<Response<WriteReply>, Status> {
        let mut requests = request.into_inner();
        let Some(Part::Open(open)) = requests.message().await?.and_then(|first| first.part) else {
            return Err(Status::invalid_argument("the first message is not Open"));
        };
        let (user, path) = target(&open.user, &open.path)?;
        let mode = permission_bits(open.mode)?;
        let (sender, steps) = mpsc::channel(1);
        let work = move |_: &User| write(&Target { path: &path, mode, if_absent: open.if_absent }, steps);
        let work = self.authority.run(&user, work);
        // If this call is cancelled, both are dropped: the thread then finds its channel closed without a commit.
        let (sent, written) = tokio::join!(send_steps(&mut requests, sender), work);
        match (sent, written) {
            (_, Ok(reply)) => Ok(Response::new(reply)),
            (Err(sent), Err(_)) => Err(sent),
            (Ok(()), Err(written)) => Err(written),
        }
    }

    async fn stat(&self, request: Request<StatRequest>) -> Result<Response<StatReply>, Status> {
        let StatRequest { path, user, no_follow } = request.into_inner();
        self.status(&user, &path, move |path| change::stat(path, no_follow)).await
    }

    async fn list(&self, request: Request<ListRequest>) -> Result<Response<Self::ListStream>, Status> {
        let ListRequest { path, user, depth } = request.into_inner();
        if depth > list::MAX_DEPTH {
            return Err(Status::invalid_argument("EINVAL: a depth is at most 16"));
        }
        let (user, path) = target(&user, &path)?;
        let work = move |_: &User, replies: &_| list(&path, depth, replies);
        let replies = self.authority.stream(&user, list::QUEUED_REPLIES, work).await?;
        Ok(Response::new(ReceiverStream::new(replies)))
    }

    async fn make_directory(&self, request: Request<MakeDirectoryRequest>) -> Result<Response<StatReply>, Status> {
        let MakeDirectoryRequest { path, user, parents, mode } = request.into_inner();
        let mode = permission_bits(mode)?;
        self.status(&user, &path, move |path| change::make_directory(path, parents, mode)).await
    }

    async fn r#move(&self, request: Request<MoveRequest>) -> Result<Response<MoveReply>, Status> {
        let MoveRequest { from, to, user, no_replace } = request.into_inner();
        let (_, to) = target(&user, &to)?;
        self.run(&user, &from, move |from| change::rename(from, &to, no_replace)).await?;
        Ok(Response::new(MoveReply {}))
    }

    async fn remove(&self, request: Request<RemoveRequest>) -> Result<Response<Self::RemoveStream>, Status> {
        let RemoveRequest { path, user, recursive } = request.into_inner();
        let (user, path) = target(&user, &path)?;
        let work = move |_: &User, replies: &_| remove(&path, recursive, replies);
        let replies = self.authority.stream(&user, remove::QUEUED_REPLIES, work).await?;
        Ok(Response::new(ReceiverStream::new(replies)))
    }

    async fn set_attributes(&self, request: Request<SetAttributesRequest>) -> Result<Response<StatReply>, Status> {
        let SetAttributesRequest { path, user, no_follow, mode, owner, group } = request.into_inner();
        let wanted = Attributes {
            mode: permission_bits(mode)?,
            uid: id(&owner, users::user_id)?,
            gid: id(&group, users::group_id)?,
            no_follow,
        };
        self.status(&user, &path, move |path| change::set_attributes(path, &wanted)).await
    }

    async fn make_symlink(&self, request: Request<MakeSymlinkRequest>) -> Result<Response<StatReply>, Status> {
        let MakeSymlinkRequest { path, user, target } = request.into_inner();
        self.status(&user, &path, move |path| change::make_symlink(path, &target)).await
    }

    async fn list_xattrs(&self, request: Request<XattrRequest>) -> Result<Response<ListXattrsReply>, Status> {
        let XattrRequest { path, user, no_follow, .. } = request.into_inner();
        let names = self.run(&user, &path, move |path| Attribute::of(path, no_follow)?.names()).await?;
        Ok(Response::new(ListXattrsReply { names }))
    }

    async fn get_xattr(&self, request: Request<XattrRequest>) -> Result<Response<GetXattrReply>, Status> {
        let XattrRequest { path, user, no_follow, name } = request.into_inner();
        let value = self.run(&user, &path, move |path| Attribute::of(path, no_follow)?.get(&name)).await?;
        Ok(Response::new(GetXattrReply { value }))
    }

    async fn set_xattr(&self, request: Request<SetXattrRequest>) -> Result<Response<SetXattrReply>, Status> {
        let SetXattrRequest { attribute, value } = request.into_inner();
        let XattrRequest { path, user, no_follow, name } = attribute.unwrap_or_default();
        self.run(&user, &path, move |path| Attribute::of(path, no_follow)?.set(&name, &value, path)).await?;
        Ok(Response::new(SetXattrReply {}))
    }

    async fn remove_xattr(&self, request: Request<XattrRequest>) -> Result<Response<RemoveXattrReply>, Status> {
        let XattrRequest { path, user, no_follow, name } = request.into_inner();
        self.run(&user, &path, move |path| Attribute::of(path, no_follow)?.remove(&name, path)).await?;
        Ok(Response::new(RemoveXattrReply {}))
    }

    async fn watch(&self, request: Request<WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let WatchRequest { path, user, recursive } = request.into_inner();
        let (user, path) = target(&user, &path)?;
        let (left, wanted) = UnixStream::pair().map_err(|e| crate::errno::status(&e, "socketpair"))?;
        let left = OwnedFd::from(left);
        let work = move |_: &User, replies: &_| watch(&path, recursive, replies, &left);
        let replies = self.watchers.stream(&user, watch::QUEUED_REPLIES, work).await?;
        Ok(Response::new(Watching { replies: ReceiverStream::new(replies), _wanted: wanted.into() }))
    }
}

/// The replies of a watch. Once they are dropped, the other end hangs up and so wakes the thread, which sleeps in the kernel.
pub struct Watching {
    replies: ReceiverStream<Result<WatchReply, Status>>,
    _wanted: OwnedFd,
}

impl Stream for Watching {
    type Item = Result<WatchReply, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.replies).poll_next(context)
    }
}

/// Passes the stream on to the writing thread. Ok also when that thread has given up: its error says why.
async fn send_steps(requests: &mut Streaming<WriteRequest>, steps: mpsc::Sender<Step>) -> Result<(), Status> {
    while let Some(request) = requests.next().await {
        let step = match request?.part {
            Some(Part::Data(data)) => Step::Data(data),
            Some(Part::Commit(commit)) => Step::Commit(Bytes::from(commit.sha256)),
            Some(Part::Open(_)) => return Err(Status::invalid_argument("a second Open")),
            None => return Err(Status::invalid_argument("an empty message")),
        };
        let last = matches!(step, Step::Commit(_));
        if steps.send(step).await.is_err() || last {
            return Ok(());
        }
    }
    Ok(())
}
