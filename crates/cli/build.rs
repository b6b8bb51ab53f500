//! Has the functions of a call stand side by side in the program. A call runs through hundreds of them, out of tens of
//! thousands; side by side they are on half as many pages of memory, which the processor has to look up and to fetch.
//!
//! `layout.txt` names them; `bench/layout.py` writes it. It is a wish: a name that is not there is passed over, and a
//! linker that knows no such wish is not told.

#![expect(clippy::disallowed_methods, reason = "cargo tells a build script everything by the environment")]

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=layout.txt");
    let variable = |name| env::var(name).unwrap_or_default();
    let target = variable("TARGET").to_uppercase().replace('-', "_");
    println!("cargo::rerun-if-env-changed=CARGO_TARGET_{target}_LINKER");
    // Programs that are not made for speed have other functions.
    if matches!(variable("OPT_LEVEL").as_str(), "0" | "1") {
        return;
    }
    let layout = Path::new(&variable("CARGO_MANIFEST_DIR")).join("layout.txt");
    let wish = format!("-Wl,--no-warn-symbol-ordering,--symbol-ordering-file={}", layout.display());
    if is_known_to_linker(&wish) {
        println!("cargo::rustc-link-arg-bins={wish}");
    }
}

/// Whether the linker that links the program takes an argument: a program that does nothing is linked with it.
fn is_known_to_linker(argument: &str) -> bool {
    let (Some(rustc), Some(target), Some(out)) = (env::var_os("RUSTC"), env::var_os("TARGET"), env::var_os("OUT_DIR"))
    else {
        return false;
    };
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let linker = env::var("RUSTC_LINKER").map(|linker| format!("-Clinker={linker}"));
    let source = Path::new(&out).join("nothing.rs");
    let tried = std::fs::write(&source, "fn main() {}").and_then(|()| {
        Command::new(rustc)
            .arg(&source)
            .args(flags.split('\x1f').filter(|flag| !flag.is_empty()))
            .args(linker)
            .arg(format!("-Clink-arg={argument}"))
            .arg("--target")
            .arg(target)
            .arg("--out-dir")
            .arg(&out)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
    });
    tried.is_ok_and(|status| status.success())
}
