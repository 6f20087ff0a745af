//! The Files service: connects streams of the contract with the thread that does the work.

use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::contract::{
    ListReply, ListRequest, ReadReply, ReadRequest, StatReply, StatRequest, WriteReply, WriteRequest, files_server,
    write_request::Part,
};
use crate::errno::status;
use crate::users;

use super::authority::Authority;
use super::list::{QUEUED_REPLIES, list};
use super::path::resolve;
use super::read::{QUEUED_CHUNKS, Range, read};
use super::status::describe;
use super::write::{Step, write};

#[derive(Clone)]
pub struct Files {
    authority: Authority,
}

impl Files {
    pub fn new() -> Self {
        Self { authority: Authority::new() }
    }
}

#[tonic::async_trait]
impl files_server::Files for Files {
    type ReadStream = ReceiverStream<Result<ReadReply, Status>>;
    type ListStream = ReceiverStream<Result<ListReply, Status>>;

    async fn read(&self, request: Request<ReadRequest>) -> Result<Response<Self::ReadStream>, Status> {
        let ReadRequest { path, user, offset, length } = request.into_inner();
        let user = users::requested(&user)?;
        let path = resolve(&user, &path)?;
        let work = move |_: &users::User, chunks: &_| read(&path, &Range { offset, length }, chunks);
        let chunks = self.authority.stream(&user, QUEUED_CHUNKS, work).await?;
        Ok(Response::new(ReceiverStream::new(chunks)))
    }

    async fn write(&self, request: Request<Streaming<WriteRequest>>) -> Result<Response<WriteReply>, Status> {
        let mut requests = request.into_inner();
        let Some(Part::Open(open)) = requests.message().await?.and_then(|first| first.part) else {
            return Err(Status::invalid_argument("the first message is not Open"));
        };
        let user = users::requested(&open.user)?;
        let path = resolve(&user, &open.path)?;
        let (sender, steps) = mpsc::channel(1);
        let work = self.authority.run(&user, move |_| write(&path, open.mode, steps));
        // If this call is cancelled, both are dropped: the thread then finds its channel closed without a commit.
        let (sent, written) = tokio::join!(send_steps(&mut requests, sender), work);
        match (sent, written) {
            (_, Ok(reply)) => Ok(Response::new(reply)),
            (Err(sent), Err(_)) => Err(sent),
            (Ok(()), Err(written)) => Err(written),
        }
    }

    async fn stat(&self, request: Request<StatRequest>) -> Result<Response<StatReply>, Status> {
        let StatRequest { path, user } = request.into_inner();
        let user = users::requested(&user)?;
        let path = resolve(&user, &path)?;
        let work = move |_: &users::User| {
            let metadata = std::fs::metadata(&path).map_err(|e| status(&e, "stat"))?;
            Ok(describe(path.file_name().unwrap_or_default(), &metadata, None))
        };
        let found = self.authority.run(&user, work).await?;
        Ok(Response::new(StatReply { status: Some(found) }))
    }

    async fn list(&self, request: Request<ListRequest>) -> Result<Response<Self::ListStream>, Status> {
        let ListRequest { path, user } = request.into_inner();
        let user = users::requested(&user)?;
        let path = resolve(&user, &path)?;
        let work = move |_: &users::User, replies: &_| list(&path, replies);
        let replies = self.authority.stream(&user, QUEUED_REPLIES, work).await?;
        Ok(Response::new(ReceiverStream::new(replies)))
    }
}

/// Passes the stream on to the writing thread. Ok also when that thread has given up: its error says why.
async fn send_steps(requests: &mut Streaming<WriteRequest>, steps: mpsc::Sender<Step>) -> Result<(), Status> {
    while let Some(request) = requests.next().await {
        let step = match request?.part {
            Some(Part::Data(data)) => Step::Data(data),
            Some(Part::Commit(_)) => Step::Commit,
            Some(Part::Open(_)) => return Err(Status::invalid_argument("a second Open")),
            None => return Err(Status::invalid_argument("an empty message")),
        };
        let last = matches!(step, Step::Commit);
        if steps.send(step).await.is_err() || last {
            return Ok(());
        }
    }
    Ok(())
}
