//! No file, however broken, does more than be refused.

use std::collections::BTreeSet;

use ibv_sa_samples::{Random, holds, mutate, names, scaled};
use proptest::prelude::*;

use super::{EXAMPLE, FewNames};
use crate::engine::Settings;
use crate::policy::{self, Mistake, PolicyFile, Problem, Rules};

#[derive(Debug, Clone)]
enum Edit {
    Remove(usize, usize),
    Insert(usize, &'static str),
    Copy(usize, usize, usize),
    Byte(usize, u8),
}

fn edit() -> impl Strategy<Value = Edit> {
    let place = 0..EXAMPLE.len();
    let words = prop::sample::select(vec![
        "[",
        "]",
        "[[",
        "]]",
        "{",
        "}",
        "\"",
        "'",
        "\"\"\"",
        "\n",
        "\r",
        "=",
        ".",
        ",",
        "#",
        "-",
        "0x",
        "e9",
        "\0",
        "\u{feff}",
        "\u{e4}",
        "\u{202e}",
        "\\u0000",
        "\\",
        "nan",
        "1979-05-27T07:32:00Z",
        "99999999999999999999",
        "[[rule]]\n",
        "[[override]]\n",
        "[limits]\n",
        "action = \"allow\"\n",
        "users",
        "traps",
        "65535",
        "*",
        "/",
    ]);
    prop_oneof![
        (place.clone(), 1..40usize).prop_map(|(at, length)| Edit::Remove(at, length)),
        (place.clone(), words).prop_map(|(at, word)| Edit::Insert(at, word)),
        (place.clone(), place.clone(), 1..80usize)
            .prop_map(|(from, to, length)| Edit::Copy(from, to, length)),
        (place, any::<u8>()).prop_map(|(at, byte)| Edit::Byte(at, byte)),
    ]
}

fn apply(text: &mut Vec<u8>, edit: &Edit) {
    let part = |text: &[u8], at: usize, length: usize| {
        let from = at.min(text.len());
        from..(from + length).min(text.len())
    };
    match *edit {
        Edit::Remove(at, length) => {
            let range = part(text, at, length);
            text.drain(range);
        }
        Edit::Insert(at, word) => {
            let at = at.min(text.len());
            text.splice(at..at, word.bytes());
        }
        Edit::Copy(from, to, length) => {
            let (piece, to) = (text[part(text, from, length)].to_vec(), to.min(text.len()));
            text.splice(to..to, piece);
        }
        Edit::Byte(at, byte) => {
            if let Some(place) = text.get_mut(at) {
                *place = byte;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_mutated_file_is_a_policy_or_has_problems_with_places(edits in prop::collection::vec(edit(), 1..6)) {
        let mut text = EXAMPLE.as_bytes().to_vec();
        edits.iter().for_each(|edit| apply(&mut text, edit));
        let _ = tried(&String::from_utf8_lossy(&text));
    }
}

/// Rules that can be described, or problems that have places.
fn tried(text: &str) -> Result<(), Vec<Problem>> {
    let rules = Rules::parse(text, &FewNames).inspect_err(|problems| {
        let said = problems.iter().map(|problem| (problem.line, problem.column, &*problem.text));
        holds::problems(text, said);
    })?;
    holds::description(&rules.describe(Settings::default().limits()));
    Ok(())
}

names!(mistake, MISTAKES, Mistake {
    Mistake::Encoding => "encoding",
    Mistake::Toml => "TOML",
    Mistake::UnknownKey => "unknown key",
    Mistake::NoTable => "no table",
    Mistake::NoTables => "no tables",
    Mistake::NoList => "no list",
    Mistake::EmptyList => "empty list",
    Mistake::Limit => "limit",
    Mistake::RuleWithoutAction => "rule without action",
    Mistake::Action => "action",
    Mistake::NoName => "no name",
    Mistake::UnknownName => "unknown name",
    Mistake::LookUp => "look-up",
    Mistake::Port => "port",
    Mistake::Trap => "trap",
    Mistake::OverrideForNobody => "override for nobody",
    Mistake::OverrideWithoutLimit => "override without limit",
});

/// What is put in the place of words, and between them.
const WORDS: &[&str] = &[
    "users",
    "groups",
    "queued",
    "limits",
    "rule",
    "override",
    "far\"",
    "alice",
    "bob",
    "0",
    "-1",
    "65536",
    "99999999999999999999",
    "4294967295",
    "[]",
    "[",
    "]",
    "\"",
    "\n",
    "= ",
    "3 # ",
    "true",
    "\n[limits]\n",
    "\n[[rule]]\n",
    "\n[[override]]\n",
    "\nlimits = 3\n",
    "\nrule = [ 3 ]\n",
    "\noverride = \"x\"\n",
    "\ntraps = []\n",
    "\nusers = [\"far\"]\n",
    "\ngroups = [-1, 1]\n",
    "\nusers = \"alice\"\n",
];

#[test]
fn each_mistake_is_made_and_has_its_place() {
    let mut seen = BTreeSet::new();
    let mut good = 0;
    for part in [EXAMPLE].into_iter().chain(EXAMPLE.split("\n\n")) {
        let mut random = Random::new(part.len() as u64);
        for _ in 0..scaled(1000) {
            match tried(&mutate::text(&mut random, part, WORDS)) {
                Ok(()) => good += 1,
                Err(problems) => seen.extend(problems.iter().map(|problem| mistake(&problem.mistake))),
            }
        }
    }
    // What is no text never comes to be parsed.
    let file = tempfile::NamedTempFile::new().expect("a file");
    let mut random = Random::new(1);
    for _ in 0..scaled(200) {
        let bytes = mutate::bytes(&mut random, EXAMPLE.as_bytes(), &[]);
        std::fs::write(file.path(), &bytes).expect("room");
        match (PolicyFile::named(file.path()).read(), std::str::from_utf8(&bytes)) {
            (Err(policy::Error::Broken { problems, .. }), text) => {
                assert_eq!(problems[0].mistake == Mistake::Encoding, text.is_err());
                seen.extend(problems.iter().map(|problem| mistake(&problem.mistake)));
            }
            (Ok(_), text) => assert!(text.is_ok()),
            (Err(other), _) => panic!("{other}"),
        }
    }
    assert_eq!(seen, MISTAKES.iter().copied().collect());
    assert!(good > 500, "{good} are policies still");
}

#[test]
fn deep_and_long_files_are_refused_and_no_more() {
    for text in [
        "[".repeat(60_000),
        "a = ".to_string() + &"[".repeat(60_000),
        "{a=".repeat(20_000),
        "a.".repeat(30_000) + "b = 1",
    ] {
        assert!(Rules::parse(&text, &FewNames).is_err());
    }
}
