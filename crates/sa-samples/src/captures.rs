//! MADs that were exchanged with OpenSM 3.3.23 on a simulated fabric, as a transport hands them over: 256 bytes.

use std::collections::BTreeMap;
use std::path::Path;

use ibv_sa_wire::mad::MAD_SIZE;

/// All of them by name.
///
/// # Panics
///
/// If a file cannot be read or is no MAD.
pub fn captures() -> BTreeMap<String, [u8; MAD_SIZE]> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sa-wire/tests/mads");
    let mut all = BTreeMap::new();
    for file in std::fs::read_dir(dir).expect("the captures") {
        let path = file.expect("a file").path();
        let text = std::fs::read_to_string(&path).expect("a text");
        let bytes: Vec<u8> = text
            .lines()
            .flat_map(|line| line.split_once(':').expect("an offset").1.split_whitespace())
            .map(|byte| u8::from_str_radix(byte, 16).expect("a byte"))
            .collect();
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name");
        all.insert(name.into(), bytes.try_into().expect("256 bytes"));
    }
    all
}
