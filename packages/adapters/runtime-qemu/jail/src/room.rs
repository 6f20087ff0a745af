//! What the VMM sees: namespaces of its own, and a root of which nothing can be written.
//!
//! ```text
//!   /<folder of the build>   read-only, the only thing that can be executed
//!   /<single files>          read-only
//!   /dev/null, zero, urandom (and what is asked for)
//!   /fd                      its own open descriptors: how it opens files that were passed to it
//! ```

use std::ffi::CString;
use std::fs;
use std::io::Result;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use crate::plan::Plan;
use crate::{about, check};

const NOTHING_SPECIAL: libc::c_ulong = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
const NAME: &str = "vmm";

pub fn enter(plan: &Plan) -> Result<()> {
    let spaces =
        libc::CLONE_NEWNS | libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS | libc::CLONE_NEWCGROUP;
    check("unshare", unsafe { libc::unshare(spaces) })?;
    check("sethostname", unsafe { libc::sethostname(NAME.as_ptr().cast(), NAME.len()) })?;
    check("setsid", unsafe { libc::setsid() })?;
    unsafe { libc::umask(0o077) };
    // Nothing that is mounted here shows outside, or the other way round.
    mount(None, Path::new("/"), None, libc::MS_REC | libc::MS_PRIVATE, None)?;
    // Any folder will do: it is covered in this namespace only. Found from itself: a folder above may be renamed meanwhile.
    let here = std::env::current_dir()?;
    let root = Path::new("..").join(here.file_name().unwrap_or_default());
    mount(Some(Path::new("tmpfs")), &root, Some("tmpfs"), NOTHING_SPECIAL, Some("size=64k,nr_inodes=64,mode=755"))?;
    furnish(plan, &root)?;
    make_root(&root)
}

fn furnish(plan: &Plan, root: &Path) -> Result<()> {
    let folder = below(root, &plan.folder);
    make_folder(&folder)?;
    bind(&plan.folder, &folder, libc::MS_RDONLY | libc::MS_NOSUID | libc::MS_NODEV)?;
    for (outside, inside) in &plan.files {
        let place = below(root, inside);
        make_file(&place)?;
        bind(outside, &place, libc::MS_RDONLY | NOTHING_SPECIAL)?;
    }
    for device in ["null", "zero", "urandom"].into_iter().chain(plan.devices.iter().map(String::as_str)) {
        let device = Path::new("/dev").join(device);
        let place = below(root, &device);
        make_file(&place)?;
        bind(&device, &place, libc::MS_NOSUID | libc::MS_NOEXEC)?;
    }
    // Of /proc, only the descriptors of process 1 of this pid namespace: the VMM.
    let (whole, descriptors) = (root.join("proc"), root.join("fd"));
    make_folder(&whole)?;
    make_folder(&descriptors)?;
    mount(Some(Path::new("proc")), &whole, Some("proc"), NOTHING_SPECIAL, None)?;
    bind(&whole.join("1/fd"), &descriptors, libc::MS_RDONLY | NOTHING_SPECIAL)?;
    unmount(&whole)?;
    fs::remove_dir(&whole)
}

/// Everything of the host's that is not bound above is out of reach after this.
fn make_root(root: &Path) -> Result<()> {
    std::env::set_current_dir(root)?;
    let here = c".".as_ptr();
    let moved = unsafe { libc::syscall(libc::SYS_pivot_root, here, here) };
    check("pivot_root", moved as libc::c_int)?;
    unmount(Path::new("."))?;
    std::env::set_current_dir("/")?;
    remount(Path::new("/"), libc::MS_RDONLY | NOTHING_SPECIAL)
}

fn below(root: &Path, path: &Path) -> std::path::PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

fn make_folder(path: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let old = unsafe { libc::umask(0o022) };
    let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(path);
    unsafe { libc::umask(old) };
    made.map_err(|error| about(&path.to_string_lossy(), &error))
}

fn make_file(path: &Path) -> Result<()> {
    make_folder(path.parent().unwrap_or(path))?;
    fs::write(path, "").map_err(|error| about(&path.to_string_lossy(), &error))
}

/// A bind mount takes its flags only when it is mounted a second time.
fn bind(source: &Path, target: &Path, flags: libc::c_ulong) -> Result<()> {
    mount(Some(source), target, None, libc::MS_BIND, None).map_err(|error| about(&source.to_string_lossy(), &error))?;
    remount(target, flags)
}

fn remount(target: &Path, flags: libc::c_ulong) -> Result<()> {
    mount(None, target, None, libc::MS_REMOUNT | libc::MS_BIND | flags, None)
}

fn mount(
    source: Option<&Path>,
    target: &Path,
    kind: Option<&str>,
    flags: libc::c_ulong,
    options: Option<&str>,
) -> Result<()> {
    let text = |text: &str| CString::new(text).unwrap_or_default();
    let source = source.map(c_path);
    let (kind, options) = (kind.map(text), options.map(text));
    let pointer = |text: &Option<CString>| text.as_ref().map_or(ptr::null(), |text| text.as_ptr());
    let result = unsafe {
        libc::mount(pointer(&source), c_path(target).as_ptr(), pointer(&kind), flags, pointer(&options).cast())
    };
    check(&format!("mount {}", target.display()), result).map(drop)
}

/// At once for this namespace, whatever is still open.
fn unmount(target: &Path) -> Result<()> {
    check("umount2", unsafe { libc::umount2(c_path(target).as_ptr(), libc::MNT_DETACH) }).map(drop)
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap_or_default()
}
