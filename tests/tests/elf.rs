//! The file itself: what it needs, exports, and how its frames are unwound.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use gimli::{BaseAddresses, CieOrFde, EhFrame, EndianSlice, LittleEndian, UnwindSection};
use ibv_sa_tests::{
    FLAVOURS, Flavour, Run, acks_after, assert_report, device_after, harmless_linked, scripted_dir, shim,
    shim_dir, with_reports,
};
use object::elf::*;
use object::read::elf::{Dyn, ElfFile64, FileHeader, ProgramHeader, Sym};
use object::{Endianness, Object, ObjectSection, ObjectSymbol};

type Elf<'a> = ElfFile64<'a, Endianness>;

/// The names that libibverbs has under its oldest version node alone.
const ONLY_AT_1_0: [&str; 9] = [
    "ibv_copy_path_rec_from_kern",
    "ibv_copy_path_rec_to_kern",
    "ibv_copy_qp_attr_from_kern",
    "ibv_create_comp_channel",
    "ibv_destroy_comp_channel",
    "ibv_get_sysfs_path",
    "ibv_rate_to_mult",
    "ibv_read_sysfs_file",
    "mult_to_ibv_rate",
];

struct Dynamic {
    needed: Vec<String>,
    soname: Option<String>,
    flags: u64,
    flags_1: u64,
}

fn dynamic(elf: &Elf) -> Dynamic {
    let (endian, data) = (elf.endian(), elf.data());
    let header = elf.elf_header();
    let sections = header.sections(endian, data).expect("sections");
    let (entries, strings) = sections.dynamic(endian, data).expect("readable").expect("a dynamic section");
    let strings = sections.strings(endian, data, strings).expect("its strings");
    let mut found = Dynamic { needed: Vec::new(), soname: None, flags: 0, flags_1: 0 };
    for entry in entries {
        let value = entry.d_val(endian);
        let text = || {
            let bytes = strings.get(value as u32).expect("a string");
            String::from_utf8(bytes.to_vec()).expect("UTF-8")
        };
        match entry.tag32(endian) {
            Some(DT_NEEDED) => found.needed.push(text()),
            Some(DT_SONAME) => found.soname = Some(text()),
            Some(DT_FLAGS) => found.flags = value,
            Some(DT_FLAGS_1) => found.flags_1 = value,
            _ => {}
        }
    }
    found
}

/// Exported functions: (name, address) and their version nodes. The nodes' own symbols are left out.
fn exports(elf: &Elf) -> BTreeMap<String, (String, u64)> {
    let (endian, data) = (elf.endian(), elf.data());
    let sections = elf.elf_header().sections(endian, data).expect("sections");
    let versions = sections.versions(endian, data).expect("readable").expect("symbol versions");
    let symbols = elf.elf_dynamic_symbol_table();
    let mut found = BTreeMap::new();
    for (index, symbol) in symbols.enumerate() {
        if symbol.is_undefined(endian) || symbol.st_shndx(endian) == SHN_ABS || index.0 == 0 {
            continue;
        }
        let name = String::from_utf8(symbols.symbol_name(endian, symbol).expect("a name").to_vec());
        let name = name.expect("UTF-8");
        let version = versions.version_index(endian, index);
        if version.is_hidden() {
            continue; // an older one, for old programs; another of the same name is the default
        }
        let version = versions.version(version).expect("readable");
        let node = version.map_or(String::new(), |v| String::from_utf8_lossy(v.name()).into_owned());
        found.insert(name, (node, symbol.st_value(endian)));
    }
    found
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).expect("the library can be read")
}

#[test]
fn it_needs_the_c_library_alone_and_is_hardened() {
    for flavour in FLAVOURS {
        let bytes = read(&shim(flavour));
        let elf = Elf::parse(&*bytes).expect("ELF");
        let dynamic = dynamic(&elf);
        let allowed = ["libc.so.6", "ld-linux-x86-64.so.2"];
        assert!(dynamic.needed.contains(&"libc.so.6".to_string()), "{:?}", dynamic.needed);
        assert!(dynamic.needed.iter().all(|name| allowed.contains(&&**name)), "{:?}", dynamic.needed);
        assert_eq!(dynamic.soname.as_deref(), Some("libibv_sa.so.1"));
        let now = dynamic.flags & u64::from(DF_BIND_NOW) != 0;
        assert!(now || dynamic.flags_1 & u64::from(DF_1_NOW) != 0, "not linked with -z now");
        assert_ne!(dynamic.flags_1 & u64::from(DF_1_NODELETE), 0, "not linked with -z nodelete");
        assert_eq!(dynamic.flags & u64::from(DF_TEXTREL), 0, "it has text relocations");

        let headers = elf.elf_program_headers();
        let endian = elf.endian();
        assert!(headers.iter().any(|h| h.p_type(endian) == PT_GNU_RELRO), "no RELRO");
        let stack = headers.iter().find(|h| h.p_type(endian) == PT_GNU_STACK).expect("a stack header");
        assert_eq!(stack.p_flags(endian) & PF_X, 0, "an executable stack");
        for header in headers.iter().filter(|h| h.p_type(endian) == PT_LOAD) {
            let flags = header.p_flags(endian);
            assert_ne!(flags & (PF_W | PF_X), PF_W | PF_X, "a segment is writable and executable");
        }
    }
}

#[test]
fn the_release_is_stripped_and_small() {
    let bytes = read(&shim(Flavour::Release));
    let elf = Elf::parse(&*bytes).expect("ELF");
    assert!(elf.section_by_name(".symtab").is_none(), "not stripped");
    assert!(bytes.len() < 720_000, "{} bytes", bytes.len());
}

/// libibverbs as installed, which the shim takes the place of.
fn installed() -> Vec<u8> {
    let found = Run::new("gcc").arg("-print-file-name=libibverbs.so").run().assert_ok();
    let path = found.stdout.trim();
    assert!(path.starts_with('/'), "libibverbs is not installed: run `make setup`");
    read(Path::new(path))
}

#[test]
fn exports_stand_under_the_nodes_of_libibverbs_or_our_own() {
    let bytes = installed();
    let theirs = exports(&Elf::parse(&*bytes).expect("ELF"));
    let public: Vec<_> = theirs.iter().filter(|(_, (node, _))| node.starts_with("IBVERBS_1.")).collect();
    assert!(public.len() > 60, "only {} exports of libibverbs are found", public.len());
    for flavour in FLAVOURS {
        let bytes = read(&shim(flavour));
        let ours = exports(&Elf::parse(&*bytes).expect("ELF"));
        for (name, (node, _)) in &public {
            assert_eq!(ours.get(*name).map(|(node, _)| node), Some(node), "{name}");
        }
        for (name, (node, _)) in &ours {
            let known = node == "IBV_SA_1.0" || node.starts_with("IBVERBS_1.");
            assert!(known, "{name} stands under {node:?}");
            // Under our own node: our own functions, and those that in C are inline.
            let public = theirs.get(name).is_some_and(|(node, _)| node.starts_with("IBVERBS_1."));
            assert!(!public || node != "IBV_SA_1.0", "{name}");
            assert!(name.contains("ibv_"), "{name}");
        }
        let oldest = ours.iter().filter(|(_, (node, _))| node == "IBVERBS_1.0").map(|(name, _)| &**name);
        assert_eq!(oldest.collect::<BTreeSet<_>>(), BTreeSet::from(ONLY_AT_1_0));
    }
}

/// For each frame description: where it begins and ends, and whether unwinding through it runs code of its
/// own (a personality routine: augmentation zPLR; a frame without has zR).
fn frames(elf: &Elf) -> BTreeMap<u64, (u64, bool)> {
    let section = elf.section_by_name(".eh_frame").expect("unwind tables");
    let data = section.data().expect("their bytes");
    let eh_frame = EhFrame::new(data, LittleEndian);
    let mut bases = BaseAddresses::default().set_eh_frame(section.address());
    if let Some(text) = elf.section_by_name(".text") {
        bases = bases.set_text(text.address());
    }
    if let Some(got) = elf.section_by_name(".got") {
        bases = bases.set_got(got.address());
    }
    let mut found = BTreeMap::new();
    let mut entries = eh_frame.entries(&bases);
    while let Some(entry) = entries.next().expect("a readable entry") {
        let CieOrFde::Fde(partial) = entry else { continue };
        let fde = partial
            .parse(|section: &EhFrame<EndianSlice<LittleEndian>>, bases, offset| {
                section.cie_from_offset(bases, offset)
            })
            .expect("a readable frame");
        let runs_code = fde.cie().has_lsda() || fde.cie().personality().is_some() || fde.lsda().is_some();
        found.insert(fde.initial_address(), (fde.initial_address() + fde.len(), runs_code));
    }
    found
}

/// Trampolines of `ops.poll_cq`, of both modes that look at completions.
const POLL_CQ: usize = 2 * 16;

/// A thread may be cancelled in any of these frames. The unwinder of the C library (libgcc_s) then passes
/// through them; a landing pad would be run by the one linked into the shim, and the program would abort.
#[test]
fn no_exported_function_has_a_landing_pad() {
    for flavour in FLAVOURS {
        let bytes = read(&shim(flavour));
        let elf = Elf::parse(&*bytes).expect("ELF");
        let frames = frames(&elf);
        assert!(frames.values().any(|(_, runs_code)| *runs_code), "the reader finds no landing pad at all");
        let mut places: BTreeMap<String, u64> =
            exports(&elf).into_iter().map(|(name, (_, address))| (name, address)).collect();
        // The trampolines behind the pointers in a context are not exported, but stand in the same place.
        if flavour == Flavour::Debug {
            let symbols = elf.symbols().filter(|symbol| symbol.is_definition());
            let named =
                symbols.filter_map(|symbol| Some((symbol.name().ok()?.to_string(), symbol.address())));
            let trampolines: Vec<(String, u64)> =
                named.filter(|(name, _)| name.contains("interpose") && name.contains("5enter")).collect();
            // Of 11 members of a context 16, of polls of an extended CQ and its counted form 64 each, and those of
            // `poll_cq`, which are written by hand.
            assert_eq!(
                trampolines.len(),
                11 * 16 + 4 * 64 + POLL_CQ,
                "the trampolines are not found by their names"
            );
            let by_hand = trampolines.iter().filter(|(name, _)| name.contains("4poll5enter"));
            assert_eq!(by_hand.count(), POLL_CQ);
            places.extend(trampolines);
        }
        let mut bad = Vec::new();
        for (name, address) in places {
            let covering = frames.range(..=address).next_back().filter(|(_, (end, _))| address < *end);
            match covering {
                None => bad.push(format!("{name}: no frame description")),
                Some((_, (_, true))) => bad.push(format!("{name}: zPLR")),
                Some(_) => {}
            }
        }
        assert!(bad.is_empty(), "{flavour:?}:\n{}", bad.join("\n"));
    }
}

#[test]
fn link_order_decides() {
    for flavour in FLAVOURS {
        let first = harmless_linked("rounds", flavour);
        let bytes = read(&first);
        let needed = dynamic(&Elf::parse(&*bytes).expect("ELF")).needed;
        assert!(needed.contains(&"libibv_sa.so.1".to_string()), "{needed:?}");
        let run = |exe: &Path| Run::new(exe).arg("2").scripted().library_path(shim_dir(flavour));
        let (outcome, reports) = with_reports(run(&first));
        outcome.assert_ok();
        assert_eq!(reports.len(), 1);
        assert_report(&reports[0], device_after(2, 2, 2), acks_after(2));

        // The other way round the shim is not used; the README says so.
        let (ours, theirs) = (shim_dir(flavour), scripted_dir());
        let (ours, theirs) = (format!("-L{}", ours.display()), format!("-L{}", theirs.display()));
        let last = ibv_sa_tests::cc("ctests/harmless/rounds.c", &[&theirs, &ours, "-libverbs", "-libv_sa"]);
        let (outcome, reports) = with_reports(run(&last));
        outcome.assert_ok();
        assert_eq!(reports.len(), 0);
    }
}
