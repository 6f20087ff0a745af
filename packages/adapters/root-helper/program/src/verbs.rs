//! The closed list of what can be asked for. A request is a number, a verb and its words; a verb may need one descriptor.

use std::os::fd::OwnedFd;

use crate::cgroups::Missing;
use crate::config::{Config, Kind};
use crate::failure::{Failure, Result};
use crate::names::{LifeId, PlaceName, RunName, SnapshotId, number};
use crate::nodes::{self, Pages, Part};
use crate::vaults;
use crate::vmms::{Guest, Vmms};
use crate::wire::{quoted, quoted_list};

/// Far more than any machine has; what is asked for is checked by the node against its own limits.
const MOST_MEMORY_MIB: u64 = 16 * 1024 * 1024;
const MOST_VCPUS: u64 = 1024;

#[derive(Debug, PartialEq, Eq)]
pub enum Verb {
    Hello,
    OpenVault(PlaceName),
    CloseVault(PlaceName),
    PartLife(PlaceName, LifeId, SnapshotId, Part, Pages),
    StartVmm(RunName, Kind),
    EquipVmm(RunName, LifeId, PlaceName, u64, u64),
    EndVmm(RunName),
    ClearVmm(RunName),
}

impl Verb {
    pub fn parse(words: &[&str]) -> Result<Self> {
        Ok(match words {
            ["hello"] => Self::Hello,
            ["openVault", name] => Self::OpenVault(PlaceName::parse(name)?),
            ["closeVault", name] => Self::CloseVault(PlaceName::parse(name)?),
            ["partLife", vault, life, point, part, pages @ ..] => Self::PartLife(
                PlaceName::parse(vault)?,
                LifeId::parse(life)?,
                SnapshotId::parse(point)?,
                Part::parse(part)?,
                Pages::parse(pages)?,
            ),
            ["startVmm", run, build, way, by] => Self::StartVmm(RunName::parse(run)?, Kind::parse(build, way, by)?),
            ["equipVmm", run, life, place, memory_mib, vcpus] => Self::EquipVmm(
                RunName::parse(run)?,
                LifeId::parse(life)?,
                PlaceName::parse(place)?,
                within(memory_mib, MOST_MEMORY_MIB)?,
                within(vcpus, MOST_VCPUS)?,
            ),
            ["endVmm", run] => Self::EndVmm(RunName::parse(run)?),
            ["clearVmm", run] => Self::ClearVmm(RunName::parse(run)?),
            _ => return Err(Failure::refused("there is no such verb, or not with so many words")),
        })
    }

    pub fn takes_descriptor(&self) -> bool {
        matches!(self, Self::StartVmm(..) | Self::EquipVmm(..))
    }
}

fn within(text: &str, most: u64) -> Result<u64> {
    let value = number(text)?;
    if (1..=most).contains(&value) { Ok(value) } else { Err(Failure::refused("that number is out of range")) }
}

pub struct Helper {
    pub config: Config,
    vmms: Vmms,
}

impl Helper {
    pub fn open(config: Config) -> Result<Self> {
        let vmms = Vmms::open(&config)?;
        for vault in &config.vaults {
            vaults::provide_folder_of(vault, config.node_gid)?;
        }
        Ok(Self { vmms, config })
    }

    /// The value of the answer, as JSON.
    pub fn run(&self, verb: Verb, descriptor: Option<OwnedFd>) -> Result<String> {
        let descriptor = || descriptor.ok_or_else(|| Failure::refused("that verb needs a descriptor"));
        match verb {
            Verb::Hello => Ok(self.hello()),
            Verb::OpenVault(name) => {
                let opened = vaults::open(self.config.vault(&name)?, (self.config.node_uid, self.config.node_gid))?;
                Ok(format!("{{\"uuid\":{},\"mounted\":{}}}", quoted(&opened.uuid), opened.mounted))
            }
            Verb::CloseVault(name) => {
                vaults::close(self.config.vault(&name)?)?;
                Ok("{}".into())
            }
            Verb::PartLife(vault, life, point, part, pages) => {
                let equal = nodes::part(self.config.vault(&vault)?, &life, &point, part, &pages)?;
                Ok(format!("{{\"equal\":{equal}}}"))
            }
            Verb::StartVmm(run, kind) => {
                let vmm = self.vmms.start(&self.config, &run, &kind, descriptor()?)?;
                Ok(format!("{{\"pid\":{},\"startTime\":\"{}\"}}", vmm.pid, vmm.start_time))
            }
            Verb::EquipVmm(run, life, place, memory_mib, vcpus) => {
                let guest = Guest { life, place, memory_mib, vcpus };
                let passed = self.vmms.equip(&self.config, &run, &guest, &descriptor()?)?;
                Ok(format!("{{\"disk\":{},\"memory\":{}}}", passed.disk, passed.memory))
            }
            Verb::EndVmm(run) => self.vmms.end(&run).map(|()| "{}".into()),
            Verb::ClearVmm(run) => self.vmms.clear(&run).map(|()| "{}".into()),
        }
    }

    fn hello(&self) -> String {
        let cgroups = &self.vmms.cgroups;
        let missing: Vec<_> = cgroups.missing.iter().map(missing_text).collect();
        format!(
            "{{\"pid\":{},\"inForce\":{},\"missing\":[{}]}}",
            std::process::id(),
            quoted_list(&cgroups.in_force),
            missing.join(",")
        )
    }
}

fn missing_text(Missing { limit, reason, remedy }: &Missing) -> String {
    let (limit, reason, remedy) = (quoted(limit), quoted(reason), quoted(remedy));
    format!("{{\"limit\":{limit},\"reason\":{reason},\"remedy\":{remedy}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "lif_0123456789abcdef";

    #[test]
    fn a_verb_takes_its_own_words_and_no_others() {
        let whole: &[&[&str]] = &[
            &["hello"],
            &["openVault", "default"],
            &["closeVault", "default"],
            &["partLife", "default", RUN, "snp_0123456789abcdef", "memory", "131071"],
            &["startVmm", RUN, "0123456789abcdef0123456789abcdef", "boot", "kvm"],
            &["equipVmm", "spare-1-2-3", RUN, "default", "512", "1"],
            &["endVmm", RUN],
            &["clearVmm", "spare-1-2-3"],
        ];
        for words in whole {
            Verb::parse(words).unwrap();
            assert!(Verb::parse(&words[..words.len() - 1]).is_err(), "{words:?}");
            assert!(Verb::parse(&[words, &["more"][..]].concat()).is_err(), "{words:?}");
            for (index, hostile) in (1..words.len()).flat_map(|index| {
                ["", "..", "/", "../lives", "a/b", "-1", "0", "99999999999999999999", "lif_000000000000000i"]
                    .map(|text| (index, text))
            }) {
                let mut changed = words.to_vec();
                changed[index] = hostile;
                // The name of a vault may be a number.
                let is_place =
                    matches!((words[0], index), ("openVault" | "closeVault" | "partLife", 1) | ("equipVmm", 3));
                let plain = hostile.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') && !hostile.is_empty();
                let is_page = (words[0], index, hostile) == ("partLife", 5, "0");
                assert_eq!(Verb::parse(&changed).is_ok(), (is_place && plain) || is_page, "{changed:?}");
            }
        }
        let (few, many) = (["1"; 32], ["1"; 33]);
        let of = |pages: &[&'static str]| [whole[3][..5].to_vec(), pages.to_vec()].concat();
        assert!(Verb::parse(&of(&few)).is_ok());
        assert!(Verb::parse(&of(&many)).is_err());
        for word in ["", "Hello", "mount", "exec", "openvault"] {
            assert!(Verb::parse(&[word]).is_err());
        }
        assert!(Verb::parse(&[]).is_err());
    }
}
