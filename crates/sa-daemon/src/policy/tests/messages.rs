//! What is said of each mistake.

use super::FewNames;
use crate::policy::Rules;

/// All that is said, "LINE:COLUMN: TEXT".
fn said(text: &str) -> Vec<String> {
    let problems = Rules::parse(text, &FewNames).expect_err("no policy");
    problems.iter().map(ToString::to_string).collect()
}

#[test]
fn each_mistake_has_its_message() {
    const WHO: &str = "nobody; leave it out for everybody, or remove the whole entry";
    const RULE: &str = "a rule has users, groups, ports, traps and action";
    const PORT: &str =
        "write \"DEVICE\" or \"DEVICE/NUMBER\", with a number from 1 to 255, and \"*\" for any device";
    const TRAP: &str = "no number from 0 to 65534, nor \"security\", \"vendor\" or \"all\"";
    let cases = [
        // The file as a whole.
        ("rules = 1", "1:1: unknown key \"rules\"; a policy has [limits], [[rule]] and [[override]]".to_string()),
        ("limits = 3", "1:10: limits = 3: no table; write [limits] and its lines below".into()),
        ("[rule]\naction = \"deny\"", "1:2: [rule]: no list of tables; write [[rule]] before each rule".into()),
        ("override = [ 3 ]", "1:14: override = 3: no list of tables; write [[override]] before each override".into()),
        ("[[rule]\n", "1:8: no TOML: unclosed array table, expected `]`".into()),
        ("[limits]\nqueued = 1\nqueued = 2", "3:1: no TOML: duplicate key".into()),
        ("[limits]\nqueued = \"1", "2:12: no TOML: invalid basic string, expected `\"`".into()),
        // Rules.
        ("\n[[rule]]\n", "2:1: a rule without action; add action = \"allow\" or action = \"deny\"".into()),
        ("rule = [{ action = \"permit\" }]", "1:20: action = \"permit\": neither \"allow\" nor \"deny\"".into()),
        ("rule = [{ action = true }]", "1:20: action = true: neither \"allow\" nor \"deny\"".into()),
        ("[[rule]]\naction = \"deny\"\nuser = [1]", format!("3:1: unknown key \"user\"; {RULE}")),
        ("[[rule]]\naction = \"deny\"\n\"a\\u001Bb\" = 1", format!("3:1: unknown key \"a\\u{{1b}}b\"; {RULE}")),
        ("[[rule]]\naction = \"deny\"\nusers = \"alice\"", "3:9: users = \"alice\": no list; write [\"alice\"]".into()),
        ("[[rule]]\naction = \"deny\"\nusers = []", format!("3:9: users = []: {WHO}")),
        ("[[rule]]\naction = \"deny\"\ngroups = []", format!("3:10: groups = []: {WHO}")),
        ("[[rule]]\naction = \"deny\"\nports = []", "3:9: ports = []: no port at all; leave it out for all of them".into()),
        ("[[rule]]\naction = \"deny\"\ntraps = []", "3:9: traps = []: no trap at all; leave it out for all of them".into()),
        (
            "[[rule]]\naction = \"deny\"\nusers = [0, \"bob\"]",
            "3:13: user \"bob\": this host knows none; look at the spelling, or write its number".into(),
        ),
        (
            "[[rule]]\naction = \"deny\"\ngroups = [\"1\"]",
            "3:11: group \"1\": this host knows none; look at the spelling, or write its number".into(),
        ),
        (
            "[[rule]]\naction = \"deny\"\nusers = [\"far\"]",
            "3:10: user \"far\": the look-up failed (EIO: I/O error); write its number".into(),
        ),
        (
            "[[rule]]\naction = \"deny\"\nusers = [-1]",
            "3:10: user -1: no name in quotes and no number from 0 to 4294967294".into(),
        ),
        (
            "[[rule]]\naction = \"deny\"\ngroups = [4294967295]",
            "3:11: group 4294967295: no name in quotes and no number from 0 to 4294967294".into(),
        ),
        ("[[rule]]\naction = \"deny\"\nports = [\"mlx5_*\"]", format!("3:10: port \"mlx5_*\": {PORT}")),
        ("[[rule]]\naction = \"deny\"\nports = [\"a/0\"]", format!("3:10: port \"a/0\": {PORT}")),
        ("[[rule]]\naction = \"deny\"\nports = [\"a/256\"]", format!("3:10: port \"a/256\": {PORT}")),
        ("[[rule]]\naction = \"deny\"\nports = [\"a/+1\"]", format!("3:10: port \"a/+1\": {PORT}")),
        ("[[rule]]\naction = \"deny\"\nports = [\"a/b/1\"]", format!("3:10: port \"a/b/1\": {PORT}")),
        ("[[rule]]\naction = \"deny\"\nports = [\"/1\"]", format!("3:10: port \"/1\": {PORT}")),
        ("[[rule]]\naction = \"deny\"\nports = [\"a/\"]", format!("3:10: port \"a/\": {PORT}")),
        ("[[rule]]\naction = \"deny\"\nports = [1]", format!("3:10: port 1: {PORT}")),
        ("[[rule]]\naction = \"deny\"\ntraps = [65535]", format!("3:10: trap 65535: {TRAP}")),
        ("[[rule]]\naction = \"deny\"\ntraps = [-64]", format!("3:10: trap -64: {TRAP}")),
        ("[[rule]]\naction = \"deny\"\ntraps = [\"64\"]", format!("3:10: trap \"64\": {TRAP}")),
        ("[[rule]]\naction = \"deny\"\ntraps = [6.4]", format!("3:10: trap 6.4: {TRAP}")),
        // Limits.
        (
            "[limits]\nchannels = 1",
            "2:1: unknown key \"channels\"; limits are connections, registrations, queued and queued_per_connection".into(),
        ),
        (
            "[limits]\nconnections = 0",
            "2:15: connections = 0: no number from 1 to 65536; to keep a user out, write a rule with action = \"deny\"".into(),
        ),
        ("[limits]\nconnections = -1", "2:15: connections = -1: no number from 1 to 65536".into()),
        ("[limits]\nconnections = 65537", "2:15: connections = 65537: no number from 1 to 65536".into()),
        (
            "[limits]\nregistrations = 0",
            "2:17: registrations = 0: no number from 1 to 1000000; to forbid all of them, write a rule with action = \"deny\""
                .into(),
        ),
        ("[limits]\nregistrations = 1000001", "2:17: registrations = 1000001: no number from 1 to 1000000".into()),
        ("[limits]\nqueued = 0", "2:10: queued = 0: no number from 1 to 16777216".into()),
        (
            "[limits]\nqueued = 99999999999999999999",
            "2:10: queued = 99999999999999999999: no number from 1 to 16777216".into(),
        ),
        ("[limits]\nqueued_per_connection = 1048577", "2:25: queued_per_connection = 1048577: no number from 1 to 1048576".into()),
        ("[limits]\nqueued_per_connection = \"1\"", "2:25: queued_per_connection = \"1\": no number from 1 to 1048576".into()),
        // Overrides.
        (
            "[[override]]\nqueued = 1",
            "1:1: an override for nobody; add users or groups, or write it under [limits]".into(),
        ),
        (
            "[[override]]\nusers = [1]",
            "1:1: an override without a limit; add one, such as connections = 16".into(),
        ),
        (
            "[[override]]\nusers = [1]\naction = \"deny\"",
            "3:1: unknown key \"action\"; an override has users, groups, connections, registrations, queued and \
             queued_per_connection"
                .into(),
        ),
    ];
    for (text, message) in cases {
        assert_eq!(said(text), [message], "{text}");
    }
}

#[test]
fn all_mistakes_are_told_at_once_in_their_order() {
    let text = "# \u{e4}\n[[rule]]\ntraps = [70000, 64, \"x\"]\nusers = [\"bob\"]\n[limits]\nqueued = 0\n";
    let places: Vec<String> =
        said(text).iter().map(|one| one.splitn(3, ':').take(2).collect::<Vec<_>>().join(":")).collect();
    assert_eq!(places, ["2:1", "3:10", "3:21", "4:10", "6:10"]);
    // But no more than can be read, one a line where it is no TOML, and short.
    let text = "[[rule]]\n".repeat(100);
    assert_eq!(said(&text).len(), 20);
    assert_eq!(said("a b c d\n").len(), 1);
    let text = format!("[[rule]]\naction = \"{}\"", "y".repeat(5000));
    assert_eq!(
        said(&text),
        [format!("2:10: action = \"{}...: neither \"allow\" nor \"deny\"", "y".repeat(59))]
    );
}

#[test]
fn columns_count_characters() {
    let text = "rule = [{ users = [\"\u{e4}\u{f6}\", \"bob\"], action = \"deny\" }]";
    let words = "this host knows none; look at the spelling, or write its number";
    assert_eq!(
        said(text),
        [format!("1:20: user \"\\u{{e4}}\\u{{f6}}\": {words}"), format!("1:26: user \"bob\": {words}")]
    );
}
