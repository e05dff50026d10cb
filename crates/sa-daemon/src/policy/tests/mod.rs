mod answers;
mod messages;
mod mutations;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::names::Names;
use super::parse::LIMITS;
use super::{PolicyFile, Rules};
use crate::engine::Settings;

const EXAMPLE: &str = include_str!("../../../../../docs/policy.toml");
const MANUAL: &str = include_str!("../../../../../man/ibv-sa-policy.5.md");

/// A host with few users, so that no test depends on the one it runs on.
struct FewNames;

impl Names for FewNames {
    fn user(&self, name: &str) -> Result<Option<u32>, String> {
        match name {
            "root" => Ok(Some(0)),
            "daemon" => Ok(Some(1)),
            "alice" => Ok(Some(1000)),
            "far" => Err("EIO: I/O error".into()),
            _ => Ok(None),
        }
    }

    fn group(&self, name: &str) -> Result<Option<u32>, String> {
        match name {
            "daemon" => Ok(Some(1)),
            "adm" => Ok(Some(4)),
            _ => Ok(None),
        }
    }
}

fn parse(text: &str) -> Rules {
    Rules::parse(text, &FewNames).expect("a policy")
}

#[test]
fn the_example_is_what_it_says() {
    let rules = parse(EXAMPLE);
    assert_eq!(rules.limits.over(Settings::default().limits()), Settings::default().limits());
    assert_eq!(
        rules.limits.over(Settings { clients_per_user: 1, ..Settings::default() }.limits()).clients,
        256
    );
    assert_eq!(
        rules.describe(Settings::default().limits()),
        "\
The first rule that is about a program, a port and a trap decides:
  line 16: allow user root (0) and group adm (4): everything at all ports
  line 22: deny user 65534: everything at all ports
  line 27: allow group daemon (1): traps 64, 65, 66, 67 at mlx5_1/1
  line 33: deny everybody: everything at mlx5_1/1
  line 38: deny everybody: vendors' notices at all ports
  otherwise: user 0 may have everything, everybody else everything but traps 256 to 259
Each user may have 256 connections, 16384 registrations, 524288 notices that wait, of them 8192 for one connection.
But, by the first that is about the user:
  line 45: user daemon (1): 64 registrations, 65536 notices that wait
"
    );
}

/// Whoever copies from the manual gets what it says.
#[test]
fn the_manual_is_right() {
    struct AnyName;
    impl Names for AnyName {
        fn user(&self, _: &str) -> Result<Option<u32>, String> {
            Ok(Some(1))
        }
        fn group(&self, _: &str) -> Result<Option<u32>, String> {
            Ok(Some(1))
        }
    }
    let mut examples = 0;
    // Examples are indented by four; their parts have empty lines between them.
    for text in MANUAL.split("\n\n").filter(|text| text.starts_with("    [[")) {
        let found = Rules::parse(text, &AnyName);
        assert!(found.is_ok(), "{text}\n{found:?}");
        examples += 1;
    }
    assert_eq!(examples, 10);
    let defaults = Settings::default().limits();
    for ((key, most, _), default) in LIMITS.iter().zip([
        defaults.clients,
        defaults.registrations,
        defaults.queued,
        defaults.queued_per_client,
    ]) {
        let entry = MANUAL.split_once(&format!("\n**{key}** = *N*\n")).expect("an entry").1;
        let entry = entry.split_once("\n\n").expect("an end").0;
        assert!(entry.contains(&format!("1 to {most}, default {default}.")), "{entry}");
    }
    let wrong = "[[rule]]\nusers = [\"alcie\"]\naction = \"deny\"\n\n[limits]\nconnections = 0\n";
    for problem in Rules::parse(wrong, &FewNames).expect_err("two mistakes") {
        assert!(MANUAL.contains(&format!("    ibv-sa: error: policy.toml:{problem}\n")), "{problem}");
    }
}

#[test]
fn a_description_names_all_forms_and_what_is_never_reached() {
    let rules = parse(
        "rule = [
            { users = ['alice', 7], ports = ['a', '*/2', 'b/1'], traps = ['security', 64, 'vendor'], action = 'allow' },
            { ports = ['a', '*'], traps = [64, 'all'], action = 'deny' },
            { traps = [256], action = 'allow' },
        ]",
    );
    let text = rules.describe(Settings::default().limits());
    for line in [
        "  line 2: allow users alice (1000), 7: traps 64, 256 to 259 and vendors' notices at all ports of a, port 2 of all devices, b/1\n",
        "  line 3: deny everybody: everything at all ports\n",
        "  line 4: allow everybody: trap 256 at all ports (never reached: line 3 decides everything)\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
}

#[test]
fn only_a_file_that_nobody_else_can_have_written_is_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("policy.toml");
    let says = |file: &PolicyFile| file.read().expect_err("no policy").to_string();
    let named = PolicyFile::named(&path);
    let shown = path.display();
    assert_eq!(says(&named), format!("{shown}: No such file or directory (os error 2)"));
    assert!(named.policy().is_err());
    assert!(PolicyFile::if_there(&path).policy().is_ok_and(|policy| policy.file().is_none()));
    fs::write(&path, "[limits]\nqueued = 9\n").expect("a file");
    fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).expect("ours");
    for file in [&named, &PolicyFile::if_there(&path)] {
        assert_eq!(file.policy().expect("a policy").file(), Some(&*path));
    }
    for (mode, octal) in [(0o664, "0664"), (0o646, "0646")] {
        fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("ours");
        let words = format!("{shown}: others than its owner may write to it (mode {octal}); chmod go-w");
        assert_eq!(says(&named), words);
        assert!(PolicyFile::if_there(&path).policy().is_err(), "a file that is there counts");
    }
    fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("ours");
    assert!(rustix::process::geteuid().is_root(), "only root can give a file away: run this as root");
    std::os::unix::fs::chown(&path, Some(65534), None).expect("root may");
    let words = "belongs to user 65534, who could give rights to anybody; chown root";
    assert_eq!(says(&named), format!("{shown}: {words}"));
    std::os::unix::fs::chown(&path, Some(0), None).expect("root may");
    fs::write(&path, "#".repeat(65536)).expect("a file");
    assert!(named.read().is_ok());
    fs::write(&path, "#".repeat(65537)).expect("a file");
    let words = "is longer than 65536 bytes; use groups instead of many users";
    assert_eq!(says(&named), format!("{shown}: {words}"));
    fs::write(&path, b"# \xC3\xA4\n\xC3\xA4 \xFF").expect("a file");
    assert_eq!(says(&named), format!("{shown}:2:3: no UTF-8 text; save the file as UTF-8"));
    let fifo = directory.path().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("a FIFO");
    for path in [&fifo, directory.path()] {
        let words = format!("{}: is no regular file; name a file", path.display());
        assert_eq!(says(&PolicyFile::named(path)), words);
    }
}
