//! The Machine service: who the VM is, what time it is, whether user code runs. After a restore these are the first calls
//! that a guest answers, on cold code; so they do no more than they must.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tonic::{Request, Response, Status};

use crate::cgroup::Cgroups;
use crate::contract::{
    AssumeIdentityReply, AssumeIdentityRequest, FreezeReply, FreezeRequest, HelloReply, HelloRequest, ThawReply,
    ThawRequest, machine_server,
};
use crate::errno;
use crate::hooks::Hooks;
use crate::identity::Identity;
use crate::processes::Processes;
use crate::tunnels::Tunnels;

const CONTRACTS: &[&str] = &["v1"];

#[derive(Clone)]
pub struct Machine {
    cgroups: Option<Arc<Cgroups>>,
    identity: Arc<Identity>,
    tunnels: Tunnels,
    processes: Processes,
    hooks: Hooks,
}

impl Machine {
    pub fn new(cgroups: Option<Arc<Cgroups>>, identity: Identity, tunnels: Tunnels, hooks: Hooks) -> Self {
        let processes = hooks.processes().clone();
        Self { cgroups, identity: Arc::new(identity), tunnels, processes, hooks }
    }

    fn cgroups(&self) -> Result<&Cgroups, Status> {
        self.cgroups.as_deref().ok_or_else(|| Status::failed_precondition("this agent runs without cgroups"))
    }
}

#[tonic::async_trait]
impl machine_server::Machine for Machine {
    async fn hello(&self, _: Request<HelloRequest>) -> Result<Response<HelloReply>, Status> {
        let frozen = match &self.cgroups {
            Some(cgroups) => cgroups.is_frozen().map_err(|e| errno::status(&e, "cgroup.events"))?,
            None => false,
        };
        Ok(Response::new(HelloReply {
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            contracts: CONTRACTS.iter().map(|name| (*name).to_owned()).collect(),
            uptime_ns: clock_ns(libc::CLOCK_MONOTONIC),
            frozen,
        }))
    }

    async fn freeze(&self, request: Request<FreezeRequest>) -> Result<Response<FreezeReply>, Status> {
        let cgroups = self.cgroups()?;
        // Counted first: nothing that can wait belongs into the time that user processes stand still.
        let processes = cgroups.count();
        let limit = Duration::from_millis(request.get_ref().timeout_ms.into());
        match cgroups.freeze(limit).await {
            Ok(()) => Ok(Response::new(FreezeReply { processes })),
            Err(e) if e.kind() == io::ErrorKind::TimedOut => {
                Err(Status::deadline_exceeded("not every process stopped in time; thawed again"))
            }
            Err(e) => Err(errno::status(&e, "freeze")),
        }
    }

    async fn assume_identity(
        &self,
        request: Request<AssumeIdentityRequest>,
    ) -> Result<Response<AssumeIdentityReply>, Status> {
        // User processes are frozen: what they find when they run again is a connection that was reset.
        self.tunnels.reset_all();
        if request.get_ref().fresh {
            self.processes.forget_ended();
        }
        let reply = self.identity.assume(request.get_ref())?;
        self.hooks.due(request.get_ref());
        Ok(Response::new(reply))
    }

    async fn thaw(&self, request: Request<ThawRequest>) -> Result<Response<ThawReply>, Status> {
        let cgroups = self.cgroups()?;
        self.identity.advance_clock(request.get_ref().wall_clock_ns)?;
        cgroups.thaw().map_err(|e| errno::status(&e, "thaw"))?;
        self.hooks.begin();
        Ok(Response::new(ThawReply { processes: cgroups.count() }))
    }
}

pub fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // These clocks can't fail to be read.
    unsafe { libc::clock_gettime(clock, &mut time) };
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}
