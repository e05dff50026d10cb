//! The program: whether LD_PRELOAD reaches it, and handing the process over to it.

use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::unistd::{execvpe, getgid, getuid};
use rustix::fs::{Access, StatVfsMountFlags};

use crate::elf;
use crate::environment::{Environment, c_string};
use crate::library;
use crate::message::{CANNOT_RUN, Failure, NOT_FOUND, shown};

/// The process becomes the program; if that fails, why. What a file is and where it is looked for is execvp(3)'s
/// matter: PATH, `#!` lines, and scripts without one.
pub(crate) fn exec(words: &[OsString], environment: &Environment) -> Failure {
    let args: Vec<CString> = words.iter().map(|word| c_string(word)).collect();
    let Err(errno) = execvpe(&args[0], &args, &environment.entries());
    let name = &words[0];
    let is_path = name.as_bytes().contains(&b'/');
    match errno {
        Errno::ENOENT if is_path && !Path::new(name).exists() => {
            Failure::new(NOT_FOUND, format!("{} is not found", shown(name)))
        }
        Errno::ENOENT if locate(name).is_none() => {
            Failure::new(NOT_FOUND, format!("{} is not found in PATH", shown(name)))
        }
        Errno::ENOENT => Failure::new(
            NOT_FOUND,
            format!("cannot run {}: the interpreter or loader that it names is not found", shown(name)),
        ),
        Errno::EACCES if is_path && Path::new(name).is_dir() => {
            Failure::new(CANNOT_RUN, format!("cannot run {}: it is a directory", shown(name)))
        }
        Errno::EACCES => Failure::new(
            CANNOT_RUN,
            format!("cannot run {}: permission denied; is it executable (chmod +x)?", shown(name)),
        ),
        other => Failure::new(CANNOT_RUN, format!("cannot run {}: {}", shown(name), other.desc())),
    }
}

/// The file that execvp(3) will run.
fn locate(name: &OsStr) -> Option<PathBuf> {
    let runs = |path: &Path| path.is_file() && rustix::fs::access(path, Access::EXEC_OK).is_ok();
    if name.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(name)).filter(|path| runs(path));
    }
    if name.is_empty() {
        return None;
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| runs(path))
}

/// Why the library will not be in the program, if that can be told from the file.
pub(crate) fn out_of_reach(name: &OsStr, library: &Path) -> Option<String> {
    let program = behind_scripts(locate(name)?)?;
    let why = if let Some(more_rights) = more_rights(&program) {
        format!("is {more_rights}, and the loader ignores LD_PRELOAD in it")
    } else {
        let elf = elf::read(&File::open(&program).ok()?).ok()??;
        if !elf.names_loader && !is_loader(&program) {
            "is statically linked, and LD_PRELOAD has no effect on it".into()
        } else if library::check(library).is_ok_and(|library| library.machine != elf.machine) {
            format!("is for another machine or word size than {}", shown(library))
        } else {
            return None;
        }
    };
    Some(format!("{} {why}", shown(&program)))
}

/// The interpreter of a script, and its interpreter if that is a script too; the file itself if it is none. Nothing
/// where it is not plain which program a script leads to.
fn behind_scripts(mut program: PathBuf) -> Option<PathBuf> {
    const DEEPEST: usize = 4; // the kernel's own limit is 5
    for _ in 0..DEEPEST {
        let mut start = Vec::new();
        let Ok(file) = File::open(&program) else {
            return Some(program); // it may be executable without being readable, and set-ID
        };
        file.take(256).read_to_end(&mut start).ok()?;
        let Some(line) = start.strip_prefix(b"#!") else {
            return Some(program);
        };
        let line = line.split(|byte| *byte == b'\n').next()?;
        let words: Vec<&OsStr> = line
            .split(|byte| matches!(byte, b' ' | b'\t'))
            .filter(|word| !word.is_empty())
            .map(OsStr::from_bytes)
            .collect();
        program = match words[..] {
            [env, name] if Path::new(env).ends_with("env") => locate(name)?,
            [interpreter, ..] => locate(interpreter)?,
            [] => return None,
        };
    }
    None
}

/// A loader run as a command (`ld.so PROGRAM`) names no other, and preloads.
fn is_loader(program: &Path) -> bool {
    let file = fs::canonicalize(program).unwrap_or_default();
    file.file_name()
        .map(OsStr::as_bytes)
        .is_some_and(|name| name.starts_with(b"ld-") || name.starts_with(b"ld.so"))
}

/// How the program gets more rights than its user has, so that AT_SECURE is set in it (getauxval(3)).
fn more_rights(program: &Path) -> Option<&'static str> {
    const SET_UID: u32 = 0o4000;
    // Without the group's right to execute, the bit means something else.
    const SET_GID: u32 = 0o2010;

    if rustix::fs::statvfs(program).is_ok_and(|fs| fs.f_flag.contains(StatVfsMountFlags::NOSUID)) {
        return None;
    }
    let file = fs::metadata(program).ok()?;
    if !nix::sys::prctl::get_no_new_privs().unwrap_or(false) {
        if file.mode() & SET_UID == SET_UID && file.uid() != getuid().as_raw() {
            return Some("set-user-ID");
        }
        if file.mode() & SET_GID == SET_GID && file.gid() != getgid().as_raw() {
            return Some("set-group-ID");
        }
    }
    let mut capabilities = [0; 64];
    let size = rustix::fs::getxattr(program, "security.capability", &mut capabilities[..]);
    // Root has them all already.
    (size.is_ok() && !getuid().is_root()).then_some("a program with file capabilities")
}
