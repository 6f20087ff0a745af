//! The closed list of what can be asked for. A request is a number, a verb and its words; a verb may need one descriptor.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use crate::cgroups::Missing;
use crate::config::{Config, Kind};
use crate::containers::Means;
use crate::failure::{Failure, Result};
use crate::names::{LifeId, PlaceName, RunName, SnapshotId, number};
use crate::nodes::{self, Pages, Part};
use crate::secret::Keyed;
use crate::vaults;
use crate::vmms::{Guest, Vmms};
use crate::wire::{quoted, quoted_list};

/// Far more than any machine has; what is asked for is checked by the node against its own limits.
const MOST_MEMORY_MIB: u64 = 16 * 1024 * 1024;
const MOST_VCPUS: u64 = 1024;
const MOST_VAULT_MIB: u64 = 1024 * 1024 * 1024;
const MIB: u64 = 1024 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub enum Verb {
    Hello,
    Vaults,
    CreateVault(PlaceName, u64, Opens),
    OpenVault(PlaceName, Opens),
    CloseVault(PlaceName),
    PartLife(PlaceName, LifeId, SnapshotId, Part, Pages),
    KeepToken(PlaceName),
    GrowVault(PlaceName, u64),
    RemoveVault(PlaceName),
    StartVmm(RunName, Kind),
    EquipVmm(RunName, LifeId, PlaceName, u64, u64),
    EndVmm(RunName),
    ClearVmm(RunName),
}

/// Whether a vault has a key, which then comes with the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opens {
    AsItIs,
    ByKey,
}

impl Opens {
    fn parse(text: &str) -> Result<Self> {
        match text {
            "plain" => Ok(Self::AsItIs),
            "keyed" => Ok(Self::ByKey),
            _ => Err(Failure::refused("a vault is plain or keyed")),
        }
    }
}

impl Verb {
    pub fn parse(words: &[&str]) -> Result<Self> {
        Ok(match words {
            ["hello"] => Self::Hello,
            ["vaults"] => Self::Vaults,
            ["createVault", name, mib, opens] => {
                Self::CreateVault(PlaceName::parse(name)?, within(mib, MOST_VAULT_MIB)?, Opens::parse(opens)?)
            }
            ["openVault", name, opens] => Self::OpenVault(PlaceName::parse(name)?, Opens::parse(opens)?),
            ["closeVault", name] => Self::CloseVault(PlaceName::parse(name)?),
            ["partLife", vault, life, point, part, pages @ ..] => Self::PartLife(
                PlaceName::parse(vault)?,
                LifeId::parse(life)?,
                SnapshotId::parse(point)?,
                Part::parse(part)?,
                Pages::parse(pages)?,
            ),
            ["keepToken", name, "keyed"] => Self::KeepToken(PlaceName::parse(name)?),
            ["growVault", name, mib] => Self::GrowVault(PlaceName::parse(name)?, within(mib, MOST_VAULT_MIB)?),
            ["removeVault", name] => Self::RemoveVault(PlaceName::parse(name)?),
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
        let keyed = matches!(
            self,
            Self::CreateVault(_, _, Opens::ByKey) | Self::OpenVault(_, Opens::ByKey) | Self::KeepToken(_)
        );
        keyed || matches!(self, Self::StartVmm(..) | Self::EquipVmm(..))
    }
}

fn keyed(opens: Opens, descriptor: impl FnOnce() -> Result<OwnedFd>) -> Result<Option<Keyed>> {
    match opens {
        Opens::AsItIs => Ok(None),
        Opens::ByKey => descriptor().and_then(Keyed::receive).map(Some),
    }
}

fn within(text: &str, most: u64) -> Result<u64> {
    let value = number(text)?;
    if (1..=most).contains(&value) { Ok(value) } else { Err(Failure::refused("that number is out of range")) }
}

pub struct Helper {
    pub config: Config,
    vmms: Vmms,
    vault_groups: Vec<PathBuf>,
}

impl Helper {
    pub fn open(config: Config) -> Result<Self> {
        let vmms = Vmms::open(&config)?;
        for vault in &config.vaults {
            vaults::provide_folder_of(vault, config.node_gid)?;
        }
        vaults::end_leftovers(&config)?;
        Ok(Self { vault_groups: vmms.cgroups.of_vaults(), vmms, config })
    }

    /// The value of the answer, as JSON.
    pub fn run(&self, verb: Verb, descriptor: Option<OwnedFd>) -> Result<String> {
        let descriptor = || descriptor.ok_or_else(|| Failure::refused("that verb needs a descriptor"));
        match verb {
            Verb::Hello => Ok(self.hello()),
            Verb::Vaults => self.vaults(),
            Verb::CreateVault(name, mib, opens) => {
                let keyed = keyed(opens, descriptor)?;
                vaults::create(&self.means(), &self.config.vault(&name)?, mib * MIB, keyed.as_ref())?;
                Ok("{}".into())
            }
            Verb::PartLife(vault, life, point, part, pages) => {
                let equal = nodes::part(&self.config.vault(&vault)?, &life, &point, part, &pages)?;
                Ok(format!("{{\"equal\":{equal}}}"))
            }
            Verb::OpenVault(name, opens) => {
                let keyed = keyed(opens, descriptor)?;
                let opened =
                    vaults::open(&self.means(), &self.config.vault(&name)?, keyed.as_ref().map(|keyed| &keyed.key))?;
                Ok(format!("{{\"uuid\":{},\"mounted\":{}}}", quoted(&opened.uuid), opened.mounted))
            }
            Verb::CloseVault(name) => vaults::close(&self.config.vault(&name)?).map(|()| "{}".into()),
            Verb::KeepToken(name) => {
                let keyed = descriptor().and_then(Keyed::receive)?;
                vaults::keep_token(&self.config.vault(&name)?, &keyed).map(|()| "{}".into())
            }
            Verb::GrowVault(name, mib) => vaults::grow(&self.config.vault(&name)?, mib * MIB).map(|()| "{}".into()),
            Verb::RemoveVault(name) => vaults::remove(&self.config.vault(&name)?).map(|()| "{}".into()),
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

    fn means(&self) -> Means<'_> {
        Means { config: &self.config, groups: &self.vault_groups }
    }

    fn vaults(&self) -> Result<String> {
        let one = |vault: &vaults::Listed| {
            let (name, way) = (quoted(&vault.name), quoted(vault.way));
            format!("{{\"vault\":{name},\"encrypted\":{},\"open\":{},\"way\":{way}}}", vault.encrypted, vault.open)
        };
        let all: Vec<_> = vaults::list(&self.means())?.iter().map(one).collect();
        Ok(format!("[{}]", all.join(",")))
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
            &["vaults"],
            &["createVault", "org-1", "4096", "keyed"],
            &["openVault", "default", "plain"],
            &["closeVault", "default"],
            &["partLife", "default", RUN, "snp_0123456789abcdef", "memory", "131071"],
            &["keepToken", "org-1", "keyed"],
            &["growVault", "default", "4096"],
            &["removeVault", "org-1"],
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
                let names_vault = words[0].ends_with("Vault") || ["partLife", "keepToken"].contains(&words[0]);
                let is_place = (names_vault && index == 1) || (words[0] == "equipVmm" && index == 3);
                let plain = hostile.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') && !hostile.is_empty();
                let is_page = (words[0], index, hostile) == ("partLife", 5, "0");
                assert_eq!(Verb::parse(&changed).is_ok(), (is_place && plain) || is_page, "{changed:?}");
            }
        }
        let (few, many) = (["1"; 32], ["1"; 33]);
        let begun = ["partLife", "default", RUN, "snp_0123456789abcdef", "memory"];
        let of = |pages: &[&'static str]| [begun.to_vec(), pages.to_vec()].concat();
        assert!(Verb::parse(&of(&few)).is_ok());
        assert!(Verb::parse(&of(&many)).is_err());
        for word in ["", "Hello", "mount", "exec", "openvault"] {
            assert!(Verb::parse(&[word]).is_err());
        }
        assert!(Verb::parse(&[]).is_err());
    }
}
