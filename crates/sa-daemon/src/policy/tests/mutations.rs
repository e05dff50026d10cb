//! No file, however broken, does more than be refused.

use proptest::prelude::*;

use super::{EXAMPLE, FewNames};
use crate::engine::Settings;
use crate::policy::Rules;

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
        let text = String::from_utf8_lossy(&text);
        match Rules::parse(&text, &FewNames) {
            Ok(rules) => {
                let description = rules.describe(Settings::default().limits());
                prop_assert!(description.chars().all(|c| c == '\n' || !c.is_control()));
            }
            Err(problems) => {
                prop_assert!(!problems.is_empty() && problems.len() <= 20);
                let lines: Vec<&str> = text.split('\n').collect();
                for problem in problems {
                    prop_assert!((1..=lines.len()).contains(&problem.line), "{problem}");
                    let line = lines[problem.line - 1];
                    prop_assert!((1..=line.chars().count() + 1).contains(&problem.column), "{problem}");
                    prop_assert!(!problem.text.chars().any(char::is_control), "{problem}");
                }
            }
        }
    }
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
