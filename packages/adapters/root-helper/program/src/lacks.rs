//! Why a limit of VMMs is not in force, and what helps, as people are told.

use std::fs;

#[derive(Debug, PartialEq, Eq)]
pub enum Lack {
    NoTree,
    /// It could not be written.
    Failed(String),
    NoFile {
        files: String,
        disk: bool,
    },
    /// It is written, and nothing goes by it.
    Unfelt(&'static str),
}

impl Lack {
    pub fn reason(&self) -> String {
        match self {
            Self::NoTree => "No mounted cgroup tree has a controller for it.".into(),
            Self::Failed(detail) => format!("{}.", detail.trim_end_matches('.')),
            Self::NoFile { files, .. } => {
                format!("The groups of the cgroup tree that is mounted have no file {files}.")
            }
            Self::Unfelt(file) => {
                format!("{file} counts only on disks whose scheduler is bfq, and no disk of this machine has it.")
            }
        }
    }

    pub fn remedy(&self) -> String {
        let what = match self {
            Self::NoTree | Self::Failed(_) => "Mount a cgroup tree with it, writable by the platform,",
            Self::NoFile { disk: true, .. } => {
                "Load the module bfq, or use a kernel that has it (CONFIG_BFQ_GROUP_IOSCHED), choose that scheduler for the \
                 disk of the vault,"
            }
            Self::NoFile { disk: false, .. } => "Use a kernel that was built with that limit,",
            Self::Unfelt(_) => {
                "Choose it for the disk that holds the vault (echo bfq > /sys/block/DISK/queue/scheduler),"
            }
        };
        format!("{what} and start the platform again.")
    }
}

/// A weight of BFQ means nothing to another scheduler.
pub fn counts_without_bfq(file: &str) -> bool {
    !file.contains(".bfq.")
}

pub fn is_bfq_in_use() -> bool {
    let disks = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let schedulers = disks.filter_map(|disk| fs::read_to_string(disk.path().join("queue/scheduler")).ok());
    schedulers.into_iter().any(|text| chooses_bfq(&text))
}

/// The kernel shows the one in use in brackets.
fn chooses_bfq(schedulers: &str) -> bool {
    schedulers.split_whitespace().any(|name| name == "[bfq]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_scheduler_in_brackets_is_in_use() {
        assert!(chooses_bfq("none mq-deadline kyber [bfq]\n"));
        assert!(!chooses_bfq("[none] mq-deadline kyber bfq\n"));
        assert!(!chooses_bfq(""));
    }
}
