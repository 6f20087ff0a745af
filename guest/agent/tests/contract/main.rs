//! The guest contract, spoken by a host to an agent that runs as an ordinary process. One program, so that it is linked once.

mod attach;
mod changes;
mod files;
mod host;
mod input;
mod link;
mod machine;
mod outgoing;
mod processes;
mod spawning;
mod tunnels;
