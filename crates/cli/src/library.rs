//! Which libibv_sa.so.1 is preloaded, and how LD_PRELOAD names it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::elf::{self, Elf};
use crate::message::{FAILED, Failure, shown};

const NAME: &str = "libibv_sa.so.1";

/// Where the Makefile installs it; none in a build by cargo alone.
const INSTALLED: Option<&str> = option_env!("IBV_SA_LIBDIR");

/// The library that belongs to this ibv-sa.
pub(crate) fn find() -> Result<PathBuf, Failure> {
    let found = first_good(candidates())?;
    match unloadable(&found) {
        None => Ok(found),
        Some(why) => Err(Failure::new(FAILED, format!("{}: {why}", shown(&found)))),
    }
}

/// The library that `--library` names, as LD_PRELOAD can hold it.
pub(crate) fn named(value: OsString) -> Result<OsString, String> {
    let path = PathBuf::from(&value);
    check(&path).map_err(|why| format!("{why}; name a {NAME}"))?;
    // The program may change its folder before it starts another.
    let path = std::path::absolute(path).map_err(|error| error.to_string())?;
    match unloadable(&path) {
        None => Ok(path.into()),
        Some(why) => Err(why),
    }
}

/// The machine and kind of a library; or why it cannot be one.
pub(crate) fn check(path: &Path) -> Result<Elf, String> {
    let system = |error: std::io::Error| error.to_string();
    // Looked at first: to open a FIFO would wait for a writer.
    if !fs::metadata(path).map_err(system)?.is_file() {
        return Err("it is not a regular file".into());
    }
    let elf = elf::read(&File::open(path).map_err(system)?).map_err(system)?;
    elf.filter(|elf| elf.is_dynamic).ok_or_else(|| "it is not a shared library".into())
}

/// Beside the executable as it lies in a build, then as in an installation, which may have been moved as a whole.
fn candidates() -> Vec<PathBuf> {
    let mut places = Vec::new();
    if let Ok(executable) = std::env::current_exe()
        && let Some(bin) = executable.parent()
    {
        places.push(bin.to_path_buf());
        if let Some(prefix) = bin.parent() {
            let multiarch = format!("lib/{}-linux-gnu", std::env::consts::ARCH);
            places.extend([&*multiarch, "lib64", "lib"].map(|lib| prefix.join(lib)));
        }
    }
    places.extend(INSTALLED.map(PathBuf::from));
    let mut paths: Vec<PathBuf> = places.iter().map(|place| place.join(NAME)).collect();
    paths.dedup();
    paths
}

fn first_good(paths: Vec<PathBuf>) -> Result<PathBuf, Failure> {
    let mut looked_at = Vec::new();
    for path in paths {
        match check(&path) {
            Ok(_) => return Ok(path),
            Err(why) => looked_at.push(format!("\n  {}: {why}", shown(&path))),
        }
    }
    let text = format!(
        "{NAME} is not found; install it or name it with --library. Looked at:{}",
        looked_at.concat()
    );
    Err(Failure::new(FAILED, text))
}

/// Why ld.so(8) would not take this path as it stands.
fn unloadable(path: &Path) -> Option<String> {
    let what = path.as_os_str().as_bytes().iter().find_map(|byte| match byte {
        b' ' => Some("a space"),
        b':' => Some("a colon"),
        b'$' => Some("a dollar sign"),
        _ => None,
    })?;
    Some(format!(
        "LD_PRELOAD cannot hold a path with {what}; make a symbolic link to it elsewhere and name that with --library"
    ))
}

/// LD_PRELOAD with this library in front of what is there.
pub(crate) fn first_in_preload(library: &Path, present: Option<&OsStr>) -> OsString {
    let present = present.unwrap_or_default();
    let mut first = present.as_bytes().split(|byte| matches!(byte, b' ' | b':'));
    // As when ibv-sa runs ibv-sa.
    if first.next() == Some(library.as_os_str().as_bytes()) {
        return present.into();
    }
    let mut value: OsString = library.into();
    if !present.is_empty() {
        value.push(":");
        value.push(present);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preload_is_kept_behind_ours() {
        let preload = |present: Option<&str>| first_in_preload(Path::new("/l/a.so"), present.map(OsStr::new));
        assert_eq!(preload(None), "/l/a.so");
        assert_eq!(preload(Some("")), "/l/a.so");
        assert_eq!(preload(Some("b.so c.so")), "/l/a.so:b.so c.so");
        assert_eq!(preload(Some("b.so:/l/a.so")), "/l/a.so:b.so:/l/a.so");
        assert_eq!(preload(Some("/l/a.so:b.so")), "/l/a.so:b.so");
        assert_eq!(preload(Some("/l/a.so.1")), "/l/a.so:/l/a.so.1");
    }

    #[test]
    fn paths_that_the_loader_would_split() {
        assert_eq!(unloadable(Path::new("/a-b_c/\u{e4}")), None);
        for (path, says) in [("/a b", "space"), ("/a:b", "colon"), ("/$LIB/a", "dollar")] {
            assert!(unloadable(Path::new(path)).expect(path).contains(says));
        }
    }

    #[test]
    fn where_it_looked_is_said() {
        let failure = first_good(vec!["/nonexistent/a".into(), "/".into()]).unwrap_err();
        assert_eq!(failure.code, FAILED);
        for words in ["\"/nonexistent/a\": No such file", "\"/\": it is not a regular file", "--library"] {
            assert!(failure.text.contains(words), "{}", failure.text);
        }
    }
}
