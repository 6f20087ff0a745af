//! Generates the guest contract's types and services. `bytes` fields become reference-counted `Bytes`, so that a chunk of
//! output or of a file is copied once from the kernel and not again.

use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../proto");
    let files: Vec<_> = ["machine", "processes", "files", "tunnels"]
        .iter()
        .map(|name| root.join(format!("space/guest/v1/{name}.proto")))
        .collect();
    for file in &files {
        println!("cargo:rerun-if-changed={}", file.display());
    }
    let descriptors = protox::compile(&files, [&root])?;
    tonic_prost_build::configure().bytes(".").build_transport(false).compile_fds(descriptors)?;
    Ok(())
}
